// A first draft of a map from the names, classes and shapes of two runs, as YAML with comments that
// say what is sure and what was guessed.
#pragma once

#include <span>
#include <string>

#include "compare/name_map.h"

namespace tdump::compare {

// B's names onto A's. NameMap::Parse takes it. Where one of `maps` fits, a comment says so first.
std::string SuggestMap(std::span<const NamedTensor> a, std::span<const NamedTensor> b,
                       std::span<const NameMap> maps = {});

}  // namespace tdump::compare
