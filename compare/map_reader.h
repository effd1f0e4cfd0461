// Reading a name map: YAML -> MapData, or everything that is wrong with it.
#pragma once

#include <string_view>

#include "compare/map_data.h"
#include "core/status.h"

namespace tdump::compare {

// On failure kInvalidArgument, one line a mistake: "FILE:LINE:COLUMN: what; expected ...". No
// exception leaves; the input may be anything.
Result<MapData> ReadMapData(std::string_view yaml, std::string_view source_name);

}  // namespace tdump::compare
