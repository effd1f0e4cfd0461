// Ranks that were lost before they wrote a pass, where ranks are put together.
#pragma once

#include <string_view>
#include <vector>

#include "compare/job_side.h"

namespace tdump::compare {

// How a rank ended of which a dump of another tool has nothing.
inline constexpr std::string_view kNotInDump = "not in the dump";

// Of the ranks of `side` that were lost before they wrote a pass, one of this step each, where
// places, or `other`, tell that they should have: ranks of the same places but for axes of replicas
// have it, or the ranks of both lie alike and the same rank of the other has passes. What stands
// for it is a pass of another rank.
std::vector<PassRef> PassesOfLost(const JobSide& side, const PassRef& step, const JobSide& other);

}  // namespace tdump::compare
