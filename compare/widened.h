// Widened: whether float32 numbers are results of bfloat16, as torch.autocast makes them. If both
// sides computed so, many elements are equal bit by bit and the others some steps of bfloat16
// apart, which is no error of one side.
#pragma once

#include "compare/step_view.h"
#include "io/records.h"

namespace tdump::compare {

// Either side's numbers are bfloat16's, or nine in ten differences have no more digits than those
// of two of them: a bias that was added in float32 cancels. Reads both payloads. False where that
// cannot be told.
bool AreWidened(const StepView& a, const io::Record& record_a, const StepView& b,
                const io::Record& record_b);

}  // namespace tdump::compare
