// What a report says of an origin: where it is, what went into it, what parts there, and on which
// other ranks.
#pragma once

#include <string>
#include <vector>

#include "compare/origin_report.h"

namespace tdump::compare {

std::string OriginTitle(const Origin& origin);  // "rank 1, step 0, layers.1.mlp.down, output"
// `across`: as DiffReport::across.
std::vector<std::string> OriginLines(const Origin& origin, const std::string& across = "");

}  // namespace tdump::compare
