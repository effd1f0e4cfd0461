// Numbers so small that a device may take them for zero.
#pragma once

#include <cstdint>

#include "compare/metrics.h"
#include "core/status.h"

namespace tdump::compare {

struct Flushed {
  bool within = false;    // every element, see below
  uint64_t elements = 0;  // of them: zero on one side only
  uint64_t signs = 0;     // of these: with another sign than the number that was flushed
};

// Whether all errors are smaller than the least normal number of the coarser format, so that
// flushing to zero may be what makes the difference.
bool MayBeFlushed(const Metrics& metrics, const DType& a, const DType& b);

// An element is within when it is within `bound`, when one side is 0 and the other is subnormal in
// its own format, or when the sides are a few of the least subnormal numbers apart: roundings are
// absolute there. Subnormal numbers are otherwise numbers like others. A tensor of float16 or
// float8 of which one side is nothing but zeros was not flushed: it may have held values of use.
// Precondition: MayBeFlushed, real numbers, equal shapes. Errors: the payload's.
Result<Flushed> JudgeFlushed(const Operand& a, const Operand& b, const Bound& bound,
                             const Metrics& metrics);

}  // namespace tdump::compare
