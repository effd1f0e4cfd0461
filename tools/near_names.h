// What a user may have meant whose pattern is found in no name.
#pragma once

#include <string>
#include <vector>

#include "tools/run_source.h"

namespace tdump::tools {

// ". Near: 'encoder.layer.0', 'encoder.layer.1'" of the operators that a run knows; "" where none
// comes near. `pattern`: a regex on names, or one on keys, of which what is before the role counts.
std::string NearText(const LoadedRun& run, const std::string& pattern);
// The same of several runs; null: none.
std::string NearText(const std::vector<const LoadedRun*>& runs, const std::string& pattern);

}  // namespace tdump::tools
