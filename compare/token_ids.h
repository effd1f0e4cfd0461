// Token ids and other integers that something was given: what they are in value, in whichever dtype
// and shape.
#pragma once

#include <cstdint>
#include <vector>

#include "compare/step_view.h"
#include "io/records.h"

namespace tdump::compare {

// No bool.
bool IsOfIntegers(const DType& dtype);

// Of integers, as 64-bit ones in row-major order; empty where they were not kept in full, cannot be
// read, or are more than 2^23.
std::vector<int64_t> IntegersOf(const StepView& view, const io::Record& record);

// Whether both are known, and the same. Holds some thousands of them at a time.
bool AreEqualIntegers(const StepView& view_a, const io::Record& a, const StepView& view_b,
                      const io::Record& b);

}  // namespace tdump::compare
