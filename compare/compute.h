// Precision: the number format an operator computed in, which need not be the one it returned
// (`tdump-diff --compute fp8`): products of float8 operands come back as bfloat16 or float32.
#pragma once

#include <string>
#include <string_view>

#include "compare/reduction.h"
#include "core/status.h"
#include "core/types.h"

namespace tdump::compare {

// Unit roundoffs (Higham, Accuracy and Stability, 2.2): 2^-(mantissa bits + 1). Integers that are
// scaled by the largest number have no relative one; theirs is that of the float format with the
// same mean error for numbers with a largest-to-rms ratio of 10 (int8) or 3 (int4, in groups).
struct Precision {
  std::string name;     // as reports print it: "float8_e4m3"
  double operands = 0;  // of what goes into a product
  double others = 0;    // of everything else: norms, softmax, additions
};

// "fp8" (float8_e4m3), "fp8_e5m2", "fp4", "int8", "int4", "bf16", "fp16", "tf32", "fp32", "fp64",
// and torch's names for them. Error: what there is, and the nearest of them.
Result<Precision> ParsePrecision(std::string_view text);

// The name to give to --compute so that values of these two dtypes are compared ("bf16"); "" where
// none makes them comparable (an integer against a float).
std::string_view PrecisionFor(const DType& a, const DType& b);

// Whether results in these two dtypes are what an operator that computed in `precision` may return:
// both are float formats, or both complex, none coarser than the precision.
bool Explains(const Precision& precision, const DType& a, const DType& b);

}  // namespace tdump::compare
