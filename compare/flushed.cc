#include "compare/flushed.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "compare/bounds.h"
#include "compare/element.h"
#include "compare/pair_side.h"

namespace tdump::compare {
namespace {

constexpr uint64_t kTileElements = 4096;

bool IsReal(const NumberFormat& format) {
  return format.kind == NumberKind::kFloat && format.specials != Specials::kScale;
}
double LeastNormal(const NumberFormat& format) { return std::ldexp(1.0, 1 - format.bias); }
// Whether subnormal numbers are too small to matter, as those of float32 and bfloat16. Those of
// formats with a short exponent (float16, float8) are values that tensors are made of.
bool AreNegligible(const NumberFormat& format) { return LeastNormal(format) < 0x1p-100; }
double LeastSubnormal(const NumberFormat& format) {
  return std::ldexp(1.0, 1 - format.bias - format.mantissa_bits);
}

bool IsFlushed(double zero, double number, const NumberFormat& format) {
  return zero == 0 && number != 0 && std::abs(number) < LeastNormal(format);
}

}  // namespace

bool MayBeFlushed(const Metrics& metrics, const DType& a, const DType& b) {
  const NumberFormat left = FormatOf(a), right = FormatOf(b);
  return IsReal(left) && IsReal(right) && metrics.max_abs > 0 &&
         metrics.max_abs < std::max(LeastNormal(left), LeastNormal(right));
}

Result<Flushed> JudgeFlushed(const Operand& a, const Operand& b, const Bound& bound,
                             const Metrics& metrics) {
  PairSide left(*a.record, a.read, {}), right(*b.record, b.read, {});
  const double least = std::max(LeastSubnormal(left.format()), LeastSubnormal(right.format()));
  const double absolute = metrics.bound_abs + kBoundFactor * least;
  const bool nothing_left = metrics.rms_a == 0 || metrics.rms_b == 0;
  Flushed result;
  for (uint64_t first = 0; first < left.elements(); first += kTileElements) {
    const uint64_t count = std::min(kTileElements, left.elements() - first);
    TDUMP_RETURN_IF_ERROR(left.Load(first, count));
    TDUMP_RETURN_IF_ERROR(right.Load(first, count));
    const std::span<const double> of_a = left.Floats(0, count), of_b = right.Floats(0, count);
    for (uint64_t i = 0; i < count; ++i) {
      const double x = of_a[i], y = of_b[i];
      if (x == y || (std::isnan(x) && std::isnan(y))) continue;
      const bool lost_b = IsFlushed(x, y, right.format());
      if (lost_b || IsFlushed(y, x, left.format())) {
        if (nothing_left && !AreNegligible((lost_b ? right : left).format())) return result;
        ++result.elements;
        result.signs += std::signbit(x) != std::signbit(y);
        continue;
      }
      const bool close =
          std::abs(x - y) <= bound.relative * std::max(std::abs(x), std::abs(y)) + absolute;
      if (!close) return result;
    }
  }
  result.within = true;
  return result;
}

}  // namespace tdump::compare
