#include "compare/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "compare/accumulate.h"
#include "compare/element.h"
#include "io/value.h"

namespace tdump::compare {
namespace {

constexpr uint64_t kTileElements = 4096;

enum class Path { kBits, kInteger, kReal, kWideReal, kComplex };

Path ChoosePath(const NumberFormat& a, const NumberFormat& b) {
  const auto is = [](const NumberFormat& f, NumberKind kind) { return f.kind == kind; };
  if (is(a, NumberKind::kOpaque) || is(b, NumberKind::kOpaque)) return Path::kBits;
  if (is(a, NumberKind::kComplex) || is(b, NumberKind::kComplex)) return Path::kComplex;
  if (is(a, NumberKind::kInteger) && is(b, NumberKind::kInteger)) return Path::kInteger;
  const bool wide =
      (is(a, NumberKind::kInteger) && a.bits > 53) || (is(b, NumberKind::kInteger) && b.bits > 53);
  return wide ? Path::kWideReal : Path::kReal;
}

// One side of the pair, decoded tile by tile.
class Side {
 public:
  Side(const Operand& operand, const std::vector<bool>& skip)
      : dtype_(operand.record->dtype),
        format_(FormatOf(dtype_)),
        elements_per_unit_(std::max<uint64_t>(1, dtype_.elements_per_unit)),
        view_(*operand.record, operand.read, skip) {}

  const DType& dtype() const { return dtype_; }
  const NumberFormat& format() const { return format_; }
  uint64_t elements_per_unit() const { return elements_per_unit_; }
  uint64_t elements() const { return view_.units() * elements_per_unit_; }
  std::span<const std::byte> bytes() const { return bytes_; }

  // Precondition: `first` and `count` are multiples of elements_per_unit.
  Status Load(uint64_t first, uint64_t count) {
    bytes_.resize(count / elements_per_unit_ * dtype_.unit_bytes());
    count_ = count;
    return view_.Read(first / elements_per_unit_, bytes_);
  }
  std::span<const double> Floats() {
    floats_.resize(count_ * (format_.kind == NumberKind::kComplex ? 2 : 1));
    DecodeFloat(dtype_, format_, bytes_, floats_);
    return floats_;
  }
  // (re, im) whatever the dtype.
  std::span<const double> Complex() {
    const std::span<const double> numbers = Floats();
    if (format_.kind == NumberKind::kComplex) return numbers;
    complex_.assign(count_ * 2, 0.0);
    for (uint64_t i = 0; i < count_; ++i) complex_[2 * i] = numbers[i];
    return complex_;
  }
  std::span<const __int128> Integers() {
    integers_.resize(count_);
    DecodeInteger(dtype_, format_, bytes_, integers_);
    return integers_;
  }
  std::span<const long double> Wide() {
    wide_.resize(count_);
    if (format_.kind == NumberKind::kInteger) {
      const std::span<const __int128> numbers = Integers();
      std::copy(numbers.begin(), numbers.end(), wide_.begin());
    } else {
      const std::span<const double> numbers = Floats();
      std::copy(numbers.begin(), numbers.end(), wide_.begin());
    }
    return wide_;
  }
  Result<std::string> Text(uint64_t element) {
    std::vector<std::byte> unit(dtype_.unit_bytes());
    TDUMP_RETURN_IF_ERROR(view_.Read(element / elements_per_unit_, unit));
    return io::ValueDecoder(dtype_).Text(unit, static_cast<uint32_t>(element % elements_per_unit_));
  }

 private:
  DType dtype_;
  NumberFormat format_;
  uint64_t elements_per_unit_;
  PayloadView view_;
  uint64_t count_ = 0;
  std::vector<std::byte> bytes_;
  std::vector<double> floats_, complex_;
  std::vector<__int128> integers_;
  std::vector<long double> wide_;
};

class Measurement {
 public:
  Measurement(const Operand& a, const Operand& b, const Bound& bound)
      : bound_(bound),
        record_(*a.record),
        skip_(CommonStoredOnce(a, b)),
        a_(a, skip_),
        b_(b, skip_) {
    path_ = ChoosePath(a_.format(), b_.format());
    same_dtype_ = a_.dtype() == b_.dtype();
    for (size_t i = 0; i < skip_.size(); ++i) {
      if (skip_[i]) weight_ *= static_cast<uint64_t>(record_.sizes[i]);
    }
  }

  Result<Metrics> Run() {
    TDUMP_RETURN_IF_ERROR(
        ForEachTile([this](uint64_t first, uint64_t count) { AddTile(first, count); }));
    Finish();
    if (metrics_.numeric && path_ != Path::kInteger && sums_.max_excess > metrics_.bound_abs) {
      TDUMP_RETURN_IF_ERROR(ForEachTile([this](uint64_t, uint64_t count) { CountOutside(count); }));
    }
    metrics_.within = Within();
    TDUMP_RETURN_IF_ERROR(DescribeWorst());
    ScaleByWeight();
    return std::move(metrics_);
  }

 private:
  // Dimensions both sides store once are walked once, and every count is multiplied.
  static std::vector<bool> CommonStoredOnce(const Operand& a, const Operand& b) {
    std::vector<bool> once_a = StoredOnce(*a.record), once_b = StoredOnce(*b.record);
    if (a.record->sizes != b.record->sizes) return {};
    for (size_t i = 0; i < once_a.size(); ++i) once_a[i] = once_a[i] && once_b[i];
    return once_a;
  }

  Status ForEachTile(const std::function<void(uint64_t, uint64_t)>& body) {
    const uint64_t packed = std::max(a_.elements_per_unit(), b_.elements_per_unit());
    const uint64_t step = std::max<uint64_t>(1, kTileElements / packed) * packed;
    for (uint64_t first = 0; first < a_.elements(); first += step) {
      const uint64_t count = std::min(step, a_.elements() - first);
      TDUMP_RETURN_IF_ERROR(a_.Load(first, count));
      TDUMP_RETURN_IF_ERROR(b_.Load(first, count));
      body(first, count);
    }
    return {};
  }

  void AddTile(uint64_t first, uint64_t count) {
    const bool equal =
        same_dtype_ && std::memcmp(a_.bytes().data(), b_.bytes().data(), a_.bytes().size()) == 0;
    if (same_dtype_) CountEqualBits(first, count, equal);
    switch (path_) {
      case Path::kBits:
        return;
      case Path::kInteger:
        return AddPairs(a_.Integers(), b_.Integers(),
                        [&](auto x, auto y, uint64_t i) { AddInteger(x, y, first + i, &sums_); });
      case Path::kReal:
        if (equal) return AddEqualReal(a_.Floats(), &sums_);
        return AddPairs(a_.Floats(), b_.Floats(), [&](double x, double y, uint64_t i) {
          AddReal(x, y, first + i, bound_.relative, &sums_);
        });
      case Path::kWideReal:
        return AddPairs(a_.Wide(), b_.Wide(), [&](long double x, long double y, uint64_t i) {
          AddReal(x, y, first + i, bound_.relative, &sums_);
        });
      case Path::kComplex: {
        const auto x = a_.Complex(), y = b_.Complex();
        for (uint64_t i = 0; i < count; ++i)
          AddComplex(&x[2 * i], &y[2 * i], first + i, bound_.relative, &sums_);
      }
    }
  }

  template <class Numbers, class Add>
  static void AddPairs(Numbers x, Numbers y, const Add& add) {
    for (uint64_t i = 0; i < x.size(); ++i) add(x[i], y[i], i);
  }

  void CountOutside(uint64_t count) {
    const double relative = bound_.relative, absolute = metrics_.bound_abs;
    if (path_ == Path::kComplex) {
      const auto x = a_.Complex(), y = b_.Complex();
      for (uint64_t i = 0; i < count; ++i)
        sums_.outside += OutsideComplex(&x[2 * i], &y[2 * i], relative, absolute);
    } else if (path_ == Path::kWideReal) {
      AddPairs(a_.Wide(), b_.Wide(), [&](long double x, long double y, uint64_t) {
        sums_.outside += Outside(x, y, relative, absolute);
      });
    } else {
      AddPairs(a_.Floats(), b_.Floats(), [&](double x, double y, uint64_t) {
        sums_.outside += Outside(x, y, relative, absolute);
      });
    }
  }

  void CountEqualBits(uint64_t first, uint64_t count, bool equal) {
    if (equal) {
      metrics_.bits_equal += count;
      return;
    }
    const size_t unit_bytes = a_.dtype().unit_bytes();
    const uint64_t packed = a_.elements_per_unit();
    const std::byte* x = a_.bytes().data();
    const std::byte* y = b_.bytes().data();
    for (uint64_t i = 0; i < count; i += packed, x += unit_bytes, y += unit_bytes) {
      for (uint64_t sub = 0; sub < packed; ++sub) {
        const bool same =
            packed == 1 ? std::memcmp(x, y, unit_bytes) == 0 : SamePart(x, y, unit_bytes, sub);
        metrics_.bits_equal += same;
        if (!same && sums_.first_bits == Sums::kNowhere) sums_.first_bits = first + i + sub;
      }
    }
  }

  // Bits [sub * b, (sub + 1) * b) of a packed unit of at most 8 bytes.
  bool SamePart(const std::byte* x, const std::byte* y, size_t unit_bytes, uint64_t sub) const {
    uint64_t left = 0, right = 0;
    std::memcpy(&left, x, std::min<size_t>(unit_bytes, 8));
    std::memcpy(&right, y, std::min<size_t>(unit_bytes, 8));
    const uint32_t bits = a_.dtype().bits_per_element;
    const uint64_t mask = bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
    return (((left ^ right) >> (bits * sub)) & mask) == 0;
  }

  static double Rms(double squares, uint64_t count) {
    const double rms = count == 0 ? 0.0 : std::sqrt(squares / static_cast<double>(count));
    return std::isfinite(rms) ? rms
                              : 0.0;  // overflow: no absolute allowance rather than an infinite one
  }

  void Finish() {
    Metrics& m = metrics_;
    m.elements = a_.elements();
    m.numeric = path_ != Path::kBits;
    m.compared = sums_.compared;
    m.nan_a = sums_.nan_a;
    m.nan_b = sums_.nan_b;
    m.inf_a = sums_.inf_a;
    m.inf_b = sums_.inf_b;
    m.nan_mismatch = sums_.nan_mismatch;
    m.inf_mismatch = sums_.inf_mismatch;
    m.sign_mismatch = sums_.sign_mismatch;
    m.zero_sign_mismatch = sums_.zero_sign_mismatch;
    m.max_rel = sums_.max_rel;
    m.mean_abs =
        sums_.compared == 0
            ? 0
            : static_cast<double>(sums_.sum_abs / static_cast<long double>(sums_.compared));
    const bool integer = path_ == Path::kInteger;
    m.rms_a = Rms(sums_.square_a, integer ? sums_.compared : sums_.finite_a);
    m.rms_b = Rms(sums_.square_b, integer ? sums_.compared : sums_.finite_b);
    m.bound_abs = bound_.scale * std::min(m.rms_a, m.rms_b);
    m.max_abs = integer ? static_cast<double>(sums_.max_abs_integer) : std::max(0.0, sums_.max_abs);
    m.max_abs_text = integer ? Int128Text(static_cast<__int128>(sums_.max_abs_integer))
                             : fmt::format("{:.4g}", m.max_abs);
  }

  uint64_t Within() const {
    if (path_ == Path::kBits) return metrics_.bits_equal;
    if (path_ == Path::kInteger) return sums_.equal;
    return sums_.compared - sums_.outside + sums_.within_special;
  }

  Status DescribeWorst() {
    uint64_t element = sums_.first_special;
    if (element == Sums::kNowhere) element = sums_.worst;
    if (element == Sums::kNowhere) element = sums_.first_bits;
    if (element == Sums::kNowhere) return {};
    metrics_.has_worst = true;
    metrics_.worst.position = Position(element);
    TDUMP_ASSIGN_OR_RETURN(metrics_.worst.a, a_.Text(element));
    TDUMP_ASSIGN_OR_RETURN(metrics_.worst.b, b_.Text(element));
    return {};
  }

  std::vector<uint64_t> Position(uint64_t element) const {
    const std::vector<uint64_t> shape = ElementShape(record_);
    std::vector<uint64_t> position(shape.size(), 0);
    for (size_t i = shape.size(); i-- > 0;) {
      if (i < skip_.size() && skip_[i]) continue;
      position[i] = element % shape[i];
      element /= shape[i];
    }
    return position;
  }

  void ScaleByWeight() {
    if (weight_ == 1) return;
    Metrics& m = metrics_;
    for (uint64_t* count :
         {&m.elements, &m.bits_equal, &m.within, &m.compared, &m.nan_a, &m.nan_b, &m.inf_a,
          &m.inf_b, &m.nan_mismatch, &m.inf_mismatch, &m.sign_mismatch, &m.zero_sign_mismatch}) {
      if (__builtin_mul_overflow(*count, weight_, count)) *count = ~uint64_t{0};
    }
  }

  Bound bound_;
  const io::Record& record_;
  std::vector<bool> skip_;
  uint64_t weight_ = 1;
  Side a_, b_;
  Path path_ = Path::kBits;
  bool same_dtype_ = false;
  Sums sums_;
  Metrics metrics_;
};

}  // namespace

std::vector<uint64_t> ElementShape(const io::Record& record) {
  std::vector<uint64_t> shape(record.sizes.begin(), record.sizes.end());
  const uint64_t packed = std::max<uint64_t>(1, record.dtype.elements_per_unit);
  if (packed > 1 && shape.empty()) shape.push_back(1);
  if (!shape.empty()) shape.back() *= packed;
  return shape;
}

Result<Metrics> Measure(const Operand& a, const Operand& b, const Bound& bound) {
  return Measurement(a, b, bound).Run();
}

}  // namespace tdump::compare
