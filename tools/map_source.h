// Where tools get name maps from: by name, those installed with tdump, or a file.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compare/name_map.h"
#include "core/status.h"

namespace tdump::tools {

// The text of a map, and what messages call it. `text`: the name of an installed map
// ("hf-megatron"), else the path of a file. Error: there is none of that name, and which there are;
// the file cannot be read.
Result<std::pair<std::string, std::string>> LoadMap(const std::string& text);

// All installed maps, by name; one that cannot be read is left out.
std::vector<compare::NameMap> ShippedMaps();

}  // namespace tdump::tools
