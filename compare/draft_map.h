// DraftMap: --suggest-map, from two runs.
#pragma once

#include <span>
#include <string>

#include "compare/name_map.h"
#include "compare/pairing.h"
#include "compare/run_side.h"
#include "core/status.h"

namespace tdump::compare {

// A draft of a map from the first steps that are partners, as YAML. `maps`: the shipped ones.
// Error: no step in common.
Result<std::string> DraftMap(const RunSide& a, const RunSide& b, const PairOptions& options,
                             std::span<const NameMap> maps);

}  // namespace tdump::compare
