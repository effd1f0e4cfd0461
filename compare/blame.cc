#include "compare/blame.h"

#include <algorithm>
#include <cmath>

#include "compare/element.h"
#include "compare/payload_view.h"
#include "compare/run_side.h"

namespace tdump::compare {
namespace {

constexpr uint64_t kTileUnits = 4096;

// One side, a tile at a time.
class Numbers {
 public:
  Numbers(const io::Record& record, ReadBytes read)
      : dtype_(record.dtype), format_(FormatOf(dtype_)), view_(record, std::move(read), {}) {}

  uint64_t units() const { return view_.units(); }
  uint64_t per_unit() const { return static_cast<uint64_t>(NumbersPerUnit(dtype_, format_)); }
  Result<std::span<const double>> Read(uint64_t first, uint64_t count) {
    bytes_.resize(count * dtype_.unit_bytes());
    numbers_.resize(count * per_unit());
    TDUMP_RETURN_IF_ERROR(view_.Read(first, bytes_));
    DecodeFloat(dtype_, format_, bytes_, numbers_);
    return std::span<const double>(numbers_);
  }

 private:
  DType dtype_;
  NumberFormat format_;
  PayloadView view_;
  std::vector<std::byte> bytes_;
  std::vector<double> numbers_;
};

bool IsWithin(double a, double b, double relative, double absolute) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= relative * std::max(std::abs(a), std::abs(b)) + absolute;
}

std::vector<uint64_t> PositionOf(uint64_t element, const std::vector<uint64_t>& shape) {
  std::vector<uint64_t> position(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    position[i] = element % std::max<uint64_t>(1, shape[i]);
    element /= std::max<uint64_t>(1, shape[i]);
  }
  return position;
}

}  // namespace

Result<std::map<int32_t, uint64_t>> OutsideByRank(const StepView& a, const io::Record& record_a,
                                                  const StepView& b, const io::Record& record_b,
                                                  const Metrics& metrics, double relative) {
  std::map<int32_t, uint64_t> outside;
  TDUMP_ASSIGN_OR_RETURN(ReadBytes read_a, a.Open(record_a));
  TDUMP_ASSIGN_OR_RETURN(ReadBytes read_b, b.Open(record_b));
  Numbers left(record_a, std::move(read_a)), right(record_b, std::move(read_b));
  if (left.per_unit() != 1 || right.per_unit() != 1) return outside;  // complex, packed
  const std::vector<uint64_t> shape = ElementShape(record_b);
  uint64_t placed = 0;
  for (uint64_t first = 0; first < right.units() && placed < kMostBlamed; first += kTileUnits) {
    const uint64_t count = std::min(kTileUnits, right.units() - first);
    TDUMP_ASSIGN_OR_RETURN(const auto x, left.Read(first, count));
    TDUMP_ASSIGN_OR_RETURN(const auto y, right.Read(first, count));
    for (uint64_t i = 0; i < count; ++i) {
      if (IsWithin(x[i], y[i], relative, metrics.bound_abs)) continue;
      ++outside[b.RankAt(record_b.id, PositionOf(first + i, shape))];
      ++placed;
    }
  }
  return outside;
}

}  // namespace tdump::compare
