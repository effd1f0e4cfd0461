// Where the user wants files that go away with the process.
#pragma once

#include <string>

namespace tdump {

// TMPDIR, else /tmp.
std::string TemporaryDirectory();

}  // namespace tdump
