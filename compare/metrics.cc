#include "compare/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "compare/element.h"
#include "compare/pair_sums.h"
#include "io/value.h"

namespace tdump::compare {
namespace {

constexpr uint64_t kTileElements = 4096;
constexpr uint64_t kMostChannels = 1 << 20;

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

// The format whose rounding is the larger, as a scale of errors.
UlpScale CoarserUlp(const NumberFormat& a, const NumberFormat& b) {
  const NumberFormat& coarser = a.UnitRoundoff() >= b.UnitRoundoff() ? a : b;
  if (coarser.UnitRoundoff() == 0) return {.mantissa_bits = 0, .least_exponent = 0};
  return {.mantissa_bits = coarser.mantissa_bits,
          .least_exponent = std::max(1 - coarser.bias, UlpScale().least_exponent)};
}

// The formats that vectors decode.
std::optional<RealType> VectorType(const NumberFormat& format) {
  if (format.kind != NumberKind::kFloat) return std::nullopt;
  if (format.bits == 32) return RealType::kFloat32;
  if (format.bits == 16)
    return format.exponent_bits == 8 ? RealType::kBFloat16 : RealType::kFloat16;
  return std::nullopt;
}

struct EqualUnits {
  uint64_t equal = 0;
  uint64_t first_other = 0;  // index of the first that is not
};

// At least one of `count` units differs.
template <class Same>
EqualUnits CompareUnitsBy(uint64_t count, const Same& same) {
  EqualUnits units;
  for (uint64_t i = 0; i < count; ++i) units.equal += same(i);
  while (same(units.first_other)) ++units.first_other;
  return units;
}

template <class Unit>
EqualUnits CompareUnitsAs(const std::byte* x, const std::byte* y, uint64_t count) {
  return CompareUnitsBy(count, [&](uint64_t i) {
    Unit left, right;
    std::memcpy(&left, x + i * sizeof(Unit), sizeof(Unit));
    std::memcpy(&right, y + i * sizeof(Unit), sizeof(Unit));
    return left == right;
  });
}

EqualUnits CompareUnits(const std::byte* x, const std::byte* y, size_t unit_bytes, uint64_t count) {
  switch (unit_bytes) {
    case 1:
      return CompareUnitsAs<uint8_t>(x, y, count);
    case 2:
      return CompareUnitsAs<uint16_t>(x, y, count);
    case 4:
      return CompareUnitsAs<uint32_t>(x, y, count);
    case 8:
      return CompareUnitsAs<uint64_t>(x, y, count);
    default:
      return CompareUnitsBy(count, [&](uint64_t i) {
        return std::memcmp(x + i * unit_bytes, y + i * unit_bytes, unit_bytes) == 0;
      });
  }
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
    if (const auto type = VectorType(format_))
      DecodeReal(*type, bytes_.data(), floats_);
    else
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
        b_(b, skip_),
        adder_(bound.relative, CoarserUlp(a_.format(), b_.format()), Channels()) {
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
      TDUMP_RETURN_IF_ERROR(ForEachTile([this](uint64_t, uint64_t) { CountOutside(); }));
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
        return adder_.AddIntegers(a_.Integers(), b_.Integers(), first);
      case Path::kReal:
        if (equal) return adder_.AddEqualReals(a_.Floats());
        return adder_.AddReals(a_.Floats(), b_.Floats(), first);
      case Path::kWideReal:
        return adder_.AddWide(a_.Wide(), b_.Wide(), first);
      case Path::kComplex:
        return adder_.AddComplexes(a_.Complex(), b_.Complex(), first);
    }
  }

  void CountOutside() {
    const double absolute = metrics_.bound_abs;
    if (path_ == Path::kComplex)
      adder_.CountOutsideComplexes(a_.Complex(), b_.Complex(), absolute);
    else if (path_ == Path::kWideReal)
      adder_.CountOutsideWide(a_.Wide(), b_.Wide(), absolute);
    else
      adder_.CountOutsideReals(a_.Floats(), b_.Floats(), absolute);
  }

  // Length of the last dimension of the walk, where sums by channel say something.
  uint64_t Channels() const {
    uint64_t last = 1;
    const std::vector<uint64_t> shape = ElementShape(record_);
    for (size_t i = shape.size(); i-- > 0;) {
      if (i < skip_.size() && skip_[i]) continue;
      last = shape[i];
      break;
    }
    return last >= 2 && last <= kMostChannels && last < a_.elements() ? last : 0;
  }

  void CountEqualBits(uint64_t first, uint64_t count, bool equal) {
    if (equal) {
      metrics_.bits_equal += count;
      return;
    }
    const size_t unit_bytes = a_.dtype().unit_bytes();
    const std::byte* x = a_.bytes().data();
    const std::byte* y = b_.bytes().data();
    if (a_.elements_per_unit() == 1) {
      const EqualUnits units = CompareUnits(x, y, unit_bytes, count);
      metrics_.bits_equal += units.equal;
      if (sums_.first_bits == PairSums::kNowhere) sums_.first_bits = first + units.first_other;
      return;
    }
    const uint64_t packed = a_.elements_per_unit();
    for (uint64_t i = 0; i < count; i += packed, x += unit_bytes, y += unit_bytes) {
      for (uint64_t sub = 0; sub < packed; ++sub) {
        const bool same = SamePart(x, y, unit_bytes, sub);
        metrics_.bits_equal += same;
        if (!same && sums_.first_bits == PairSums::kNowhere) sums_.first_bits = first + i + sub;
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

  static long double MeanOf(long double sum, uint64_t count) {
    return count == 0 ? 0.0L : sum / static_cast<long double>(count);
  }
  static double Mean(long double sum, uint64_t count) {
    return static_cast<double>(MeanOf(sum, count));
  }
  // 0 where the squares are beyond a double: no absolute allowance rather than one that takes
  // everything.
  static double Rms(long double squares, uint64_t count) {
    const double mean = Mean(squares, count);
    return std::isfinite(static_cast<double>(squares)) ? std::sqrt(mean) : 0;
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
    m.mean_abs = Mean(sums_.abs_error, sums_.compared);
    m.mean_rel = Mean(sums_.relative, sums_.compared);
    m.mean_error = Mean(sums_.error, sums_.compared);
    m.rmse = static_cast<double>(std::sqrt(MeanOf(sums_.square_error, sums_.compared)));
    const bool integer = path_ == Path::kInteger;
    m.rms_a = Rms(sums_.square_a, sums_.finite_a);
    m.rms_b = Rms(sums_.square_b, sums_.finite_b);
    m.bound_abs = bound_.scale * std::min(m.rms_a, m.rms_b);
    m.max_abs = integer ? static_cast<double>(sums_.max_abs_integer) : std::max(0.0, sums_.max_abs);
    m.max_abs_text = integer ? Int128Text(static_cast<__int128>(sums_.max_abs_integer))
                             : fmt::format("{:.4g}", m.max_abs);
    m.max_ulp = sums_.max_ulp;
    m.ulp = sums_.ulp.Total();
    SetDirections();
    SetQuantiles();
    SetWorstChannel();
  }

  void SetDirections() {
    const long double a = sums_.compared_square_a, b = sums_.compared_square_b;
    const bool same = sums_.square_error == 0;
    if (a > 0 && b > 0) {
      const long double cosine = sums_.product / (std::sqrt(a) * std::sqrt(b));
      metrics_.cosine = same ? 1.0 : static_cast<double>(std::clamp(cosine, -1.0L, 1.0L));
    }
    if (same ? a > 0 : true)
      metrics_.sqnr_db = static_cast<double>(10 * std::log10(a / sums_.square_error));
  }

  void SetQuantiles() {
    Metrics& m = metrics_;
    const auto quantile = [&](double q) {
      return sums_.bins.Quantile(q, sums_.compared, m.ulp[0], m.max_abs);
    };
    m.p50 = quantile(0.5);
    m.p90 = quantile(0.9);
    m.p99 = quantile(0.99);
    m.p999 = quantile(0.999);
  }

  void SetWorstChannel() {
    const std::vector<double>& errors = adder_.channel_errors();
    if (errors.empty() || sums_.square_error == 0) return;
    const auto worst = std::max_element(
        errors.begin(), errors.end(), [](double x, double y) { return std::abs(x) < std::abs(y); });
    const double rows = static_cast<double>(a_.elements() / errors.size());
    metrics_.worst_channel = {static_cast<uint64_t>(worst - errors.begin()), *worst / rows};
  }

  uint64_t Within() const {
    if (path_ == Path::kBits) return metrics_.bits_equal;
    if (path_ == Path::kInteger) return sums_.equal;
    return sums_.compared - sums_.outside + sums_.within_special;
  }

  Status DescribeWorst() {
    uint64_t element = sums_.first_special;
    if (element == PairSums::kNowhere) element = sums_.worst;
    if (element == PairSums::kNowhere) element = sums_.first_bits;
    if (element == PairSums::kNowhere) return {};
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
    for (uint64_t& count : m.ulp) {
      if (__builtin_mul_overflow(count, weight_, &count)) count = ~uint64_t{0};
    }
  }

  Bound bound_;
  const io::Record& record_;
  std::vector<bool> skip_;
  uint64_t weight_ = 1;
  Side a_, b_;
  Path path_ = Path::kBits;
  bool same_dtype_ = false;
  PairAdder adder_;
  PairSums& sums_ = adder_.sums();
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
