#include "core/temporary_directory.h"

#include <cstdlib>

namespace tdump {

std::string TemporaryDirectory() {
  const char* const directory = ::getenv("TMPDIR");
  return directory != nullptr && *directory != '\0' ? directory : "/tmp";
}

}  // namespace tdump
