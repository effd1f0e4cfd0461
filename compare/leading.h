// Leading: the part that two tensors of different sizes both have, from index 0 on in every
// dimension: what is left of one that was padded.
#pragma once

#include <optional>
#include <string>

#include "compare/metrics.h"
#include "compare/step_view.h"
#include "core/status.h"

namespace tdump::compare {

// The sizes both have, in units; none where the numbers of dimensions differ or nothing is common.
std::optional<std::vector<int64_t>> LeadingSizes(const io::Record& a, const io::Record& b);

// Of that part of each. Precondition: both have a payload and LeadingSizes.
Result<Metrics> MeasureLeading(const StepView& view_a, const io::Record& a, const StepView& view_b,
                               const io::Record& b, const Bound& bound);

// "leading 5 rows", where they differ in the first dimension alone, else "leading [5, 4]".
std::string LeadingText(const io::Record& a, const io::Record& b);

}  // namespace tdump::compare
