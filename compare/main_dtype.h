// The dtype that the head of a report names for a side.
#pragma once

#include <string>

#include "compare/step_view.h"

namespace tdump::compare {

// The floating-point or complex dtype that most tensors have; "" where there is none. Reads all
// metadata of the view.
std::string MainDType(const StepView& view);

}  // namespace tdump::compare
