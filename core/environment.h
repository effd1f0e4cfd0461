// The environment of a process as a value, so that what depends on it can be tested by tables.
#pragma once

#include <map>
#include <string>

namespace tdump {

using Environment = std::map<std::string, std::string>;

// "" where the variable is not set.
inline std::string ValueOf(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

}  // namespace tdump
