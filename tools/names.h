// Regexes of a command line as one question about a name.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/status.h"

namespace tdump::tools {

// True when any of `patterns` is found in the name. Empty for no patterns. Error: the pattern and
// what is wrong with it. A name on which a pattern takes too long (settings/regex.h) is answered by
// `otherwise`, which stderr tells once for each pattern. Thread-safe.
Result<std::function<bool(const std::string&)>> MatchAny(const std::vector<std::string>& patterns,
                                                         bool otherwise = false);

}  // namespace tdump::tools
