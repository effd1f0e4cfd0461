#include "compare/flushed.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "compare/element.h"
#include "compare/payload_view.h"
#include "compare/verdict.h"

namespace tdump::compare {
namespace {

constexpr uint64_t kTile = 4096;

bool IsReal(const NumberFormat& format) {
  return format.kind == NumberKind::kFloat && format.specials != Specials::kScale;
}
double LeastNormal(const NumberFormat& format) { return std::ldexp(1.0, 1 - format.bias); }
double LeastSubnormal(const NumberFormat& format) {
  return std::ldexp(1.0, 1 - format.bias - format.mantissa_bits);
}

class Numbers {
 public:
  explicit Numbers(const Operand& operand)
      : dtype_(operand.record->dtype),
        format_(FormatOf(dtype_)),
        per_unit_(static_cast<uint64_t>(NumbersPerUnit(dtype_, format_))),
        view_(*operand.record, operand.read, {}) {}

  const NumberFormat& format() const { return format_; }
  uint64_t count() const { return view_.units() * per_unit_; }
  Status Load(uint64_t first, uint64_t count) {
    bytes_.resize(count / per_unit_ * dtype_.unit_bytes());
    numbers_.resize(count);
    TDUMP_RETURN_IF_ERROR(view_.Read(first / per_unit_, bytes_));
    DecodeFloat(dtype_, format_, bytes_, numbers_);
    return {};
  }
  double operator[](size_t i) const { return numbers_[i]; }

 private:
  DType dtype_;
  NumberFormat format_;
  uint64_t per_unit_;
  PayloadView view_;
  std::vector<std::byte> bytes_;
  std::vector<double> numbers_;
};

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
  Numbers left(a), right(b);
  const double least = std::max(LeastSubnormal(left.format()), LeastSubnormal(right.format()));
  const double absolute = metrics.bound_abs + kBoundFactor * least;
  Flushed result;
  for (uint64_t first = 0; first < left.count(); first += kTile) {
    const uint64_t count = std::min(kTile, left.count() - first);
    TDUMP_RETURN_IF_ERROR(left.Load(first, count));
    TDUMP_RETURN_IF_ERROR(right.Load(first, count));
    for (uint64_t i = 0; i < count; ++i) {
      const double x = left[i], y = right[i];
      if (x == y || (std::isnan(x) && std::isnan(y))) continue;
      if (IsFlushed(x, y, right.format()) || IsFlushed(y, x, left.format())) {
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
