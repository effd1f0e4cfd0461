// Means over ranks, which are never inferred: a forgotten division looks the same. Where one would
// explain a difference the report says how to ask for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compare/infer_layout.h"
#include "compare/unshard.h"

namespace tdump::compare {

// The plan's dims with the mean over axes of `times` places, which are now summed over: one of
// them, that of the batch before others, else all; "" where there are none.
std::string DimsOfMean(const UnshardPlan& plan, uint64_t times);

// Of a tensor whose best candidate is `best_error` off the other side: the dims of the first of
// which a mean in the place of a sum agrees, much better than that; "" for none.
std::string FindMean(const std::vector<LayoutCandidate>& candidates, const CandidateError& error,
                     double best_error);

}  // namespace tdump::compare
