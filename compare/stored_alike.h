// Quantised tensors of which the other side shows what is stored: of hashes and statistics of the
// integers nothing can be said of the numbers that they stand for.
#pragma once

#include <span>

#include "compare/step_view.h"

namespace tdump::compare {

// Where a view shows the numbers a tensor stands for (DequantisedView), and one of the other side
// what is stored, in the same dtype and under the same key, both show what is stored, scales
// included. Before anything is paired. What cannot be read is left as it is.
void ShowStoredAlike(std::span<StepView* const> a, std::span<StepView* const> b);

}  // namespace tdump::compare
