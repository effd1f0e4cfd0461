// Where tdump's own files lie: beside the shared object or the program that asks.
#pragma once

#include <dlfcn.h>
#include <limits.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>

#include "core/status.h"

namespace tdump {

// Path of `file` in the folder of the program or loaded object that `symbol`, a function or
// variable of it, is in. It need not exist.
inline Result<std::string> PathBeside(const void* symbol, std::string_view file) {
  Dl_info self{};
  if (dladdr(symbol, &self) == 0 || self.dli_fname == nullptr)
    return Internal("the folder of " + std::string(file) + " is not known: dladdr failed");
  std::string_view object = self.dli_fname;
  // A program has the name by which it was called, without a folder where that was found on PATH.
  std::array<char, PATH_MAX> program;
  if (object.find('/') == std::string_view::npos) {
    const ssize_t length = ::readlink("/proc/self/exe", program.data(), program.size());
    if (length <= 0) return Internal("/proc/self/exe cannot be read");
    object = {program.data(), static_cast<size_t>(length)};
  }
  return std::string(object.substr(0, object.rfind('/') + 1)).append(file);
}

}  // namespace tdump
