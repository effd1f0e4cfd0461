// Compiled once for each kind of vector (Highway's foreach_target).
#include "compare/pair_tile.h"

#include <algorithm>
#include <cmath>

#include "compare/error_bins.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compare/pair_tile.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tdump::compare::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kLanes = 16;
using Doubles = hn::CappedTag<double, kLanes>;
using Words = hn::RebindToSigned<Doubles>;
using Vector = hn::Vec<Doubles>;
constexpr Doubles kDoubles;
constexpr Words kWords;
constexpr size_t kPerVector = hn::MaxLanes(Doubles());
constexpr size_t kVectors = kLanes / kPerVector;

// 16 running values.
struct Lanes {
  Vector v[kVectors];
  HWY_INLINE explicit Lanes(double start) {
    for (Vector& vector : v) vector = hn::Set(kDoubles, start);
  }
  // Lanes 8 apart are added, then 4, 2 and 1.
  double Sum() const {
    double lanes[kLanes];
    Store(lanes);
    for (size_t width = kLanes / 2; width > 0; width /= 2)
      for (size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
    return lanes[0];
  }
  double Max() const {
    double lanes[kLanes];
    Store(lanes);
    return *std::max_element(lanes, lanes + kLanes);
  }
  double Min() const {
    double lanes[kLanes];
    Store(lanes);
    return *std::min_element(lanes, lanes + kLanes);
  }

 private:
  void Store(double* lanes) const {
    for (size_t k = 0; k < kVectors; ++k) hn::StoreU(v[k], kDoubles, lanes + k * kPerVector);
  }
};

// Calls body(k, i) for the vector of pairs at i, which belongs to the k-th vector of lanes. The
// arrays hold zeros up to a multiple of kLanes, which change no sum, no maximum and no count.
template <class Body>
HWY_INLINE void ForEachVector(size_t n, const Body& body) {
  for (size_t i = 0; i < n; i += kLanes) {
#pragma GCC unroll 16
    for (size_t k = 0; k < kVectors; ++k) body(k, i + k * kPerVector);
  }
}

HWY_INLINE Vector Load(const double* from) { return hn::LoadU(kDoubles, from); }
HWY_INLINE Vector Larger(Vector a, Vector b) { return hn::Max(hn::Abs(a), hn::Abs(b)); }

// A side that is not a whole number of lanes, with zeros behind it.
struct Padded {
  alignas(64) double values[kPairTile];
  const double* data;

  explicit Padded(std::span<const double> numbers) : data(numbers.data()) {
    if (numbers.size() % kLanes == 0) return;
    std::copy(numbers.begin(), numbers.end(), values);
    const size_t end = (numbers.size() + kLanes - 1) / kLanes * kLanes;
    std::fill(values + numbers.size(), values + end, 0.0);
    data = values;
  }
};

HWY_NOINLINE PairRange Range(std::span<const double> a, std::span<const double> b) {
  const Padded left(a), right(b);
  Lanes largest(0), nothing(0);  // x - x is 0 or, of what is not finite, NaN
  ForEachVector(a.size(), [&](size_t k, size_t i) {
    const Vector x = Load(left.data + i), y = Load(right.data + i);
    nothing.v[k] = hn::Add(nothing.v[k], hn::Add(hn::Sub(x, x), hn::Sub(y, y)));
    largest.v[k] = hn::Max(largest.v[k], Larger(x, y));
  });
  const bool finite = nothing.Sum() == 0;
  return {finite, finite ? largest.Max() : 0};
}

HWY_NOINLINE void Norms(const double* a, const double* b, size_t n, PairMoments* moments) {
  Lanes square_a(0), square_b(0), product(0);
  ForEachVector(n, [&](size_t k, size_t i) {
    const Vector x = Load(a + i), y = Load(b + i);
    square_a.v[k] = hn::Add(square_a.v[k], hn::Mul(x, x));
    square_b.v[k] = hn::Add(square_b.v[k], hn::Mul(y, y));
    product.v[k] = hn::Add(product.v[k], hn::Mul(x, y));
  });
  moments->square_a = square_a.Sum();
  moments->square_b = square_b.Sum();
  moments->product = product.Sum();
}

HWY_NOINLINE void Errors(const double* a, const double* b, size_t n, double* error,
                         PairMoments* moments) {
  Lanes sum(0), absolute(0), square(0), largest(0), least(HUGE_VAL);
  const Vector zero = hn::Zero(kDoubles), infinity = hn::Set(kDoubles, HUGE_VAL);
  size_t signs = 0;
  ForEachVector(n, [&](size_t k, size_t i) {
    const Vector x = Load(a + i), y = Load(b + i);
    const Vector e = hn::Sub(y, x);
    const Vector magnitude = hn::Abs(e);
    hn::StoreU(e, kDoubles, error + i);
    sum.v[k] = hn::Add(sum.v[k], e);
    absolute.v[k] = hn::Add(absolute.v[k], magnitude);
    square.v[k] = hn::Add(square.v[k], hn::Mul(e, e));
    largest.v[k] = hn::Max(largest.v[k], magnitude);
    const Vector but_zero = hn::IfThenElse(hn::Eq(magnitude, zero), infinity, magnitude);
    least.v[k] = hn::Min(least.v[k], but_zero);
    const auto differing = hn::Xor(hn::BitCast(kWords, x), hn::BitCast(kWords, y));
    signs += hn::CountTrue(kWords, hn::Lt(differing, hn::Zero(kWords)));
  });
  moments->error = sum.Sum();
  moments->abs_error = absolute.Sum();
  moments->square_error = square.Sum();
  moments->max_abs = largest.Max();
  moments->least_error = least.Min();
  moments->sign_mismatches = signs;
}

HWY_NOINLINE void Ratios(const double* a, const double* b, const double* error, size_t n,
                         double bound, PairMoments* moments) {
  const Vector least = hn::Set(kDoubles, 0x1p-1022), factor = hn::Set(kDoubles, bound);
  Lanes sum(0), largest(0), excess(0);
  ForEachVector(n, [&](size_t k, size_t i) {
    const Vector larger = Larger(Load(a + i), Load(b + i));
    const Vector magnitude = hn::Abs(Load(error + i));
    const Vector ratio = hn::Div(magnitude, hn::Max(larger, least));
    sum.v[k] = hn::Add(sum.v[k], ratio);
    largest.v[k] = hn::Max(largest.v[k], ratio);
    excess.v[k] = hn::Max(excess.v[k], hn::Sub(magnitude, hn::Mul(factor, larger)));
  });
  moments->relative = sum.Sum();
  moments->max_relative = largest.Max();
  moments->max_excess = excess.Max();
}

// |e| in ULP is |e| * 2^(mantissa_bits - exponent): the factor's exponent field is 2 * 1023 +
// mantissa_bits less that of the larger number.
HWY_NOINLINE void Bins(const double* a, const double* b, size_t n, const UlpScale& ulp,
                       PairScratch* scratch, PairMoments* moments) {
  const hn::Rebind<uint16_t, Doubles> narrow;
  const hn::Rebind<uint8_t, Doubles> narrowest;
  const hn::RebindToUnsigned<Doubles> unsigned_words;
  const auto least_exponent = hn::Set(kWords, ulp.least_exponent + 1023);
  const auto bias = hn::Set(kWords, 2 * 1023 + ulp.mantissa_bits);
  const auto zero = hn::Zero(kWords), one = hn::Set(kWords, 1);
  const auto last_ulp = hn::Set(kWords, kUlpBins - 1);
  const auto from_bias = hn::Set(kWords, 1023 - 2);
  Lanes largest(0);
  ForEachVector(n, [&](size_t k, size_t i) {
    const Vector magnitude = hn::Abs(Load(scratch->error + i));
    const auto bits = hn::BitCast(kWords, magnitude);
    const auto bin = hn::ShiftRight<ErrorBins::kShift>(hn::BitCast(unsigned_words, magnitude));
    hn::StoreU(hn::TruncateTo(narrow, bin), narrow, scratch->bin + i);

    const auto larger = hn::BitCast(kWords, Larger(Load(a + i), Load(b + i)));
    const auto exponent = hn::Max(hn::ShiftRight<52>(larger), least_exponent);
    const Vector scale = hn::BitCast(kDoubles, hn::ShiftLeft<52>(hn::Sub(bias, exponent)));
    const Vector ulps = hn::Mul(magnitude, scale);
    largest.v[k] = hn::Max(largest.v[k], ulps);
    const auto ulp_bits = hn::BitCast(kWords, ulps);
    auto ulp_bin = hn::Max(hn::Sub(hn::ShiftRight<52>(ulp_bits), from_bias), one);
    ulp_bin = hn::Min(hn::IfThenElseZero(hn::Gt(bits, zero), ulp_bin), last_ulp);
    hn::StoreU(hn::TruncateTo(narrowest, hn::BitCast(unsigned_words, ulp_bin)), narrowest,
               scratch->ulp_bin + i);
  });
  moments->max_ulp = largest.Max();
}

PairMoments Moments(std::span<const double> a, std::span<const double> b, double bound,
                    const UlpScale& ulp, PairScratch* scratch) {
  const Padded left(a), right(b);
  const size_t n = a.size();
  PairMoments moments;
  Norms(left.data, right.data, n, &moments);
  Errors(left.data, right.data, n, scratch->error, &moments);
  Ratios(left.data, right.data, scratch->error, n, bound, &moments);
  Bins(left.data, right.data, n, ulp, scratch, &moments);
  return moments;
}

double Squares(std::span<const double> numbers) {
  const Padded padded(numbers);
  Lanes squares(0);
  ForEachVector(numbers.size(), [&](size_t k, size_t i) {
    const Vector x = Load(padded.data + i);
    squares.v[k] = hn::Add(squares.v[k], hn::Mul(x, x));
  });
  return squares.Sum();
}

uint64_t Outside(std::span<const double> a, std::span<const double> b, double relative,
                 double absolute) {
  const Padded left(a), right(b);
  const Vector factor = hn::Set(kDoubles, relative), limit = hn::Set(kDoubles, absolute);
  size_t outside = 0;
  ForEachVector(a.size(), [&](size_t, size_t i) {
    const Vector x = Load(left.data + i), y = Load(right.data + i);
    const Vector excess = hn::Sub(hn::Abs(hn::Sub(y, x)), hn::Mul(factor, Larger(x, y)));
    outside += hn::CountTrue(kDoubles, hn::Gt(excess, limit));
  });
  return outside;
}

template <class T>
using Narrow = hn::Rebind<T, Doubles>;

HWY_INLINE Vector FromFloat(const std::byte* from) {
  return hn::PromoteTo(kDoubles, hn::LoadU(Narrow<float>(), reinterpret_cast<const float*>(from)));
}

HWY_INLINE Vector FromBFloat16(const std::byte* from) {
  const auto bits = hn::LoadU(Narrow<uint16_t>(), reinterpret_cast<const uint16_t*>(from));
  const auto wide = hn::ShiftLeft<16>(hn::PromoteTo(Narrow<uint32_t>(), bits));
  return hn::PromoteTo(kDoubles, hn::BitCast(Narrow<float>(), wide));
}

// The float16's magnitude, put where a float32's is, times 2^112; exponents of all ones stay so.
HWY_INLINE Vector FromFloat16(const std::byte* from) {
  const Narrow<uint32_t> bits;
  const Narrow<float> floats;
  const auto half =
      hn::PromoteTo(bits, hn::LoadU(Narrow<uint16_t>(), reinterpret_cast<const uint16_t*>(from)));
  const auto sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(bits, 0x8000)));
  const auto magnitude = hn::ShiftLeft<13>(hn::And(half, hn::Set(bits, 0x7FFF)));
  const auto scaled =
      hn::BitCast(bits, hn::Mul(hn::BitCast(floats, magnitude), hn::Set(floats, 0x1p112f)));
  const hn::RebindToSigned<decltype(bits)> words;
  const auto special = hn::Gt(hn::BitCast(words, magnitude), hn::Set(words, (0x7C00 << 13) - 1));
  const auto value = hn::IfThenElse(hn::RebindMask(bits, special),
                                    hn::Or(magnitude, hn::Set(bits, 0x7F80'0000)), scaled);
  return hn::PromoteTo(kDoubles, hn::BitCast(floats, hn::Or(value, sign)));
}

template <class Decode>
HWY_INLINE void DecodeWith(size_t bytes_each, const std::byte* bytes, std::span<double> numbers,
                           const Decode& decode) {
  const size_t whole = numbers.size() / kPerVector * kPerVector;
  for (size_t i = 0; i < whole; i += kPerVector)
    hn::StoreU(decode(bytes + i * bytes_each), kDoubles, numbers.data() + i);
  if (whole == numbers.size()) return;
  alignas(64) std::byte rest[kPerVector * 4] = {};
  alignas(64) double decoded[kPerVector];
  std::copy_n(bytes + whole * bytes_each, (numbers.size() - whole) * bytes_each, rest);
  hn::StoreU(decode(rest), kDoubles, decoded);
  std::copy_n(decoded, numbers.size() - whole, numbers.data() + whole);
}

void Decode(RealType type, const std::byte* bytes, std::span<double> numbers) {
  switch (type) {
    case RealType::kFloat32:
      return DecodeWith(4, bytes, numbers, [](const std::byte* at) { return FromFloat(at); });
    case RealType::kBFloat16:
      return DecodeWith(2, bytes, numbers, [](const std::byte* at) { return FromBFloat16(at); });
    case RealType::kFloat16:
      return DecodeWith(2, bytes, numbers, [](const std::byte* at) { return FromFloat16(at); });
  }
}

}  // namespace
}  // namespace tdump::compare::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tdump::compare {
HWY_EXPORT(Range);
HWY_EXPORT(Moments);
HWY_EXPORT(Squares);
HWY_EXPORT(Outside);
HWY_EXPORT(Decode);

PairRange RangeOf(std::span<const double> a, std::span<const double> b) {
  return HWY_DYNAMIC_DISPATCH(Range)(a, b);
}
PairMoments MomentsOf(std::span<const double> a, std::span<const double> b, double bound,
                      const UlpScale& ulp, PairScratch* scratch) {
  return HWY_DYNAMIC_DISPATCH(Moments)(a, b, bound, ulp, scratch);
}
double SquaresOf(std::span<const double> numbers) { return HWY_DYNAMIC_DISPATCH(Squares)(numbers); }
uint64_t CountOutside(std::span<const double> a, std::span<const double> b, double relative,
                      double absolute) {
  return HWY_DYNAMIC_DISPATCH(Outside)(a, b, relative, absolute);
}
void DecodeReal(RealType type, const std::byte* bytes, std::span<double> numbers) {
  HWY_DYNAMIC_DISPATCH(Decode)(type, bytes, numbers);
}

}  // namespace tdump::compare
#endif
