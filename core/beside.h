// Where tdump's own files lie: beside the shared object that asks.
#pragma once

#include <dlfcn.h>

#include <string>
#include <string_view>

#include "core/status.h"

namespace tdump {

// Path of `file` in the folder of the loaded object that `symbol`, a function or variable of it, is
// in. It need not exist.
inline Result<std::string> PathBeside(const void* symbol, std::string_view file) {
  Dl_info self{};
  if (dladdr(symbol, &self) == 0 || self.dli_fname == nullptr)
    return Internal("the folder of " + std::string(file) + " is not known: dladdr failed");
  const std::string_view object = self.dli_fname;
  return std::string(object.substr(0, object.rfind('/') + 1)).append(file);
}

}  // namespace tdump
