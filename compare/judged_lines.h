// What a report says of paired steps in which nothing was judged.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compare/diff.h"

namespace tdump::compare {

// All in which nothing was judged, sorted; {} where something was in each.
std::vector<uint64_t> AllNotJudged(const DiffReport& report);
// Why nothing was in these, with what to do.
std::string WhyNotJudged(const DiffReport& report, const StepsNotJudged& steps);
// "step 0 alone", and of each of the other steps why.
std::string JudgedText(const DiffReport& report);

}  // namespace tdump::compare
