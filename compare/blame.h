// Blame: which ranks hold the elements that make a tensor of many ranks differ.
#pragma once

#include <cstdint>
#include <map>

#include "compare/metrics.h"
#include "compare/step_view.h"
#include "core/status.h"

namespace tdump::compare {

// How many elements outside the bound each rank of view `b` holds; under kAllRanks those that no
// single rank does (copies, sums). Reads both tensors once more. Precondition: equal element
// shapes, `metrics` of this pair with this bound. At most kMostBlamed elements are placed.
inline constexpr uint64_t kMostBlamed = uint64_t{1} << 16;
Result<std::map<int32_t, uint64_t>> OutsideByRank(const StepView& a, const io::Record& record_a,
                                                  const StepView& b, const io::Record& record_b,
                                                  const Metrics& metrics, double relative);

}  // namespace tdump::compare
