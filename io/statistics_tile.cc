// Compiled once for each kind of vector (Highway's foreach_target). One tile at a time, which stays
// in the first-level cache:
//   1. Scan: largest and smallest bits, and from them min, max and whether all is finite.
//   2. If not: Clean makes a copy with 0 for what is not finite, and counts it.
//   3. Sum: the lanes' sums of x, |x| and x * x as doubles.
//   4. Count: zeros, and the histogram by comparing bits with the first of each bin there is.
//   5. Where the mean dominates, the deviations (core/statistics_tile.h, step 4).
#include "io/statistics_tile.h"

#include <bit>
#include <cstring>

// The code without vectors too, where every processor has some: tests compare with it.
#ifndef HWY_COMPILE_ALL_ATTAINABLE
#define HWY_COMPILE_ALL_ATTAINABLE
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "io/statistics_tile.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tdump::io::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::CappedTag<double, kTileLanes>;
constexpr Doubles kDoubles;
constexpr int kStep = 32;  // values; every vector's lanes divide it
constexpr size_t kPerVector = hn::MaxLanes(Doubles());
constexpr size_t kVectors = kTileLanes / kPerVector;
using DoubleVector = hn::Vec<Doubles>;
template <class T>
using Narrow = hn::Rebind<T, Doubles>;  // as many lanes as a vector of doubles

// What is known of a format: which bits mean infinity, how its numbers become doubles, and the
// least bits of 2^exponent (formats are monotone in their magnitude's bits).
struct Float32 {
  using Bits = uint32_t;
  static constexpr Bits kInfinity = 0x7F80'0000;
  static HWY_INLINE DoubleVector Load(const Bits* from) {
    return hn::PromoteTo(kDoubles, hn::BitCast(Narrow<float>(), hn::LoadU(Narrow<Bits>(), from)));
  }
  static double ToDouble(Bits bits) { return std::bit_cast<float>(bits); }
  static Bits LeastOf(int exponent) {
    return exponent < -126 ? 0 : static_cast<Bits>(exponent + 127) << 23;
  }
};

struct Float64 {
  using Bits = uint64_t;
  static constexpr Bits kInfinity = 0x7FF0'0000'0000'0000;
  static HWY_INLINE DoubleVector Load(const Bits* from) {
    return hn::BitCast(kDoubles, hn::LoadU(hn::RebindToUnsigned<Doubles>(), from));
  }
  static double ToDouble(Bits bits) { return std::bit_cast<double>(bits); }
  static Bits LeastOf(int exponent) { return static_cast<Bits>(exponent + 1023) << 52; }
};

struct BFloat16 {
  using Bits = uint16_t;
  static constexpr Bits kInfinity = 0x7F80;
  static HWY_INLINE DoubleVector Load(const Bits* from) {
    const auto wide = hn::PromoteTo(Narrow<uint32_t>(), hn::LoadU(Narrow<Bits>(), from));
    return hn::PromoteTo(kDoubles, hn::BitCast(Narrow<float>(), hn::ShiftLeft<16>(wide)));
  }
  static double ToDouble(Bits bits) { return Float32::ToDouble(uint32_t{bits} << 16); }
  static Bits LeastOf(int exponent) { return Float32::LeastOf(exponent) >> 16; }
};

// Subnormals: 2^-14 (1 + m / 1024) - 2^-14, so that none is ever an operand.
struct Float16 {
  using Bits = uint16_t;
  static constexpr Bits kInfinity = 0x7C00;
  static HWY_INLINE DoubleVector Load(const Bits* from) {
    const Narrow<uint32_t> du;
    const Narrow<float> df;
    const auto half = hn::PromoteTo(du, hn::LoadU(Narrow<Bits>(), from));
    const auto sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(du, 0x8000)));
    const auto shifted = hn::ShiftLeft<13>(hn::And(half, hn::Set(du, 0x7FFF)));
    const auto normal = hn::Add(shifted, hn::Set(du, 112u << 23));
    const auto least = hn::Set(du, 113u << 23);
    const auto subnormal =
        hn::Sub(hn::BitCast(df, hn::Add(normal, hn::Set(du, 1u << 23))), hn::BitCast(df, least));
    const Narrow<int32_t> di;
    const auto is_small = hn::Gt(hn::BitCast(di, least), hn::BitCast(di, normal));
    const auto magnitude =
        hn::IfThenElse(hn::MaskFromVec(hn::BitCast(du, hn::VecFromMask(di, is_small))),
                       hn::BitCast(du, subnormal), normal);
    return hn::PromoteTo(kDoubles, hn::BitCast(df, hn::Or(magnitude, sign)));
  }
  static double ToDouble(Bits bits) {
    const uint32_t magnitude = bits & 0x7FFFu;
    const uint32_t sign = (bits & 0x8000u) << 16;
    if (magnitude >= kInfinity)
      return Float32::ToDouble(sign | 0x7F80'0000u | (magnitude & 0x3FFu) << 13);
    if (magnitude < 0x400) return (sign != 0 ? -0x1p-24 : 0x1p-24) * magnitude;
    return Float32::ToDouble(sign | ((magnitude << 13) + (112u << 23)));
  }
  static Bits LeastOf(int exponent) {
    if (exponent >= 16) return kInfinity;
    if (exponent >= -14) return static_cast<Bits>((exponent + 15) << 10);
    return exponent >= -24 ? static_cast<Bits>(1 << (exponent + 24)) : 0;
  }
};

// Extremes of the bits of a tile.
template <class Bits>
struct Extremes {
  Bits largest = 0;             // as unsigned: the most negative value, if any is negative
  Bits largest_positive = 0;    // as signed: the largest value, if any is positive
  Bits smallest_magnitude = 0;  // without the sign
};

template <class Bits>
constexpr Bits kSignOf = Bits{1} << (8 * sizeof(Bits) - 1);

// A reduction over lanes by hand: not every target can reduce every width.
template <class Tag, class Better>
hn::TFromD<Tag> Best(Tag tag, hn::Vec<Tag> vector, const Better& better) {
  hn::TFromD<Tag> lanes[kStep];
  hn::StoreU(vector, tag, lanes);
  for (size_t i = 1; i < hn::Lanes(tag); ++i)
    lanes[0] = better(lanes[i], lanes[0]) ? lanes[i] : lanes[0];
  return lanes[0];
}

template <class Bits>
HWY_NOINLINE Extremes<Bits> Scan(const Bits* values, size_t n) {
  using Signed = hwy::MakeSigned<Bits>;
  const hn::CappedTag<Bits, kStep> du;
  const hn::CappedTag<Signed, kStep> ds;
  const auto mask = hn::Set(du, static_cast<Bits>(~kSignOf<Bits>));
  auto largest = hn::Zero(du);
  auto positive = hn::Set(ds, hwy::LimitsMin<Signed>());
  auto smallest = mask;
  for (size_t i = 0; i < n; i += hn::Lanes(du)) {
    const auto bits = hn::LoadU(du, values + i);
    largest = hn::Max(largest, bits);
    positive = hn::Max(positive, hn::BitCast(ds, bits));
    smallest = hn::Min(smallest, hn::And(bits, mask));
  }
  const auto more = [](auto a, auto b) { return a > b; };
  const auto less = [](auto a, auto b) { return a < b; };
  return {Best(du, largest, more), static_cast<Bits>(Best(ds, positive, more)),
          Best(du, smallest, less)};
}

// Sums of the lanes, and of x, |x| and x * x over them.
struct Sums {
  double sum, l1, squares;
};

double Across(const DoubleVector (&vectors)[kVectors]) {
  double lanes[kTileLanes];
  for (size_t k = 0; k < kVectors; ++k) hn::StoreU(vectors[k], kDoubles, lanes + k * kPerVector);
  return LaneSum(lanes);
}

template <class Format>
HWY_NOINLINE Sums Sum(const typename Format::Bits* values, size_t n) {
  DoubleVector sum[kVectors], l1[kVectors], squares[kVectors];
  for (size_t k = 0; k < kVectors; ++k) sum[k] = l1[k] = squares[k] = hn::Zero(kDoubles);
  for (size_t i = 0; i < n; i += kTileLanes) {
    // The next tile, if there is one: a hint that cannot fail.
    __builtin_prefetch(values + kTileElements + i);
#pragma GCC unroll 8
    for (size_t k = 0; k < kVectors; ++k) {
      const DoubleVector x = Format::Load(values + i + k * kPerVector);
      sum[k] = hn::Add(sum[k], x);
      l1[k] = hn::Add(l1[k], hn::Abs(x));
      squares[k] = hn::Add(squares[k], hn::Mul(x, x));
    }
  }
  return {Across(sum), Across(l1), Across(squares)};
}

template <class Format>
HWY_NOINLINE double Deviations(const typename Format::Bits* values, size_t n, double mean) {
  const DoubleVector center = hn::Set(kDoubles, mean);
  DoubleVector squares[kVectors];
  for (size_t k = 0; k < kVectors; ++k) squares[k] = hn::Zero(kDoubles);
  for (size_t i = 0; i < n; i += kTileLanes) {
#pragma GCC unroll 8
    for (size_t k = 0; k < kVectors; ++k) {
      const DoubleVector d = hn::Sub(Format::Load(values + i + k * kPerVector), center);
      squares[k] = hn::Add(squares[k], hn::Mul(d, d));
    }
  }
  return Across(squares);
}

// ---- counting

template <class Tag, class Vector, class Mask>
HWY_INLINE Vector Increment(Tag tag, Vector count, Mask where) {
  return hn::Sub(count, hn::VecFromMask(tag, where));
}

template <class Tag>
uint64_t Total(Tag tag, hn::Vec<Tag> counts) {
  hn::TFromD<Tag> lanes[kStep];
  hn::StoreU(counts, tag, lanes);
  uint64_t total = 0;
  for (size_t i = 0; i < hn::Lanes(tag); ++i) total += static_cast<uint64_t>(lanes[i]);
  return total;
}

template <class Bits>
HWY_NOINLINE uint64_t CountEqual(const Bits* values, size_t n, Bits wanted) {
  const hn::CappedTag<Bits, kStep> du;
  const auto same = hn::Set(du, wanted);
  auto count = hn::Zero(du);
  for (size_t i = 0; i < n; i += hn::Lanes(du))
    count = Increment(du, count, hn::Eq(hn::LoadU(du, values + i), same));
  return Total(du, count);
}

template <class Bits>
HWY_NOINLINE Bits SmallestNonZero(const Bits* values, size_t n) {
  const hn::CappedTag<Bits, kStep> du;
  const auto magnitude_mask = hn::Set(du, static_cast<Bits>(~kSignOf<Bits>));
  const auto one = hn::Set(du, Bits{1});
  auto least = hn::Set(du, static_cast<Bits>(~Bits{0}));
  for (size_t i = 0; i < n; i += hn::Lanes(du))
    least = hn::Min(least, hn::Sub(hn::And(hn::LoadU(du, values + i), magnitude_mask), one));
  return static_cast<Bits>(Best(du, least, [](Bits a, Bits b) { return a < b; }) + 1);
}

// How the bits are read for the histogram: the upper halves of float32 tell the exponent.
template <class Bits>
struct Exponents {
  static constexpr int kShift = 0;
  using Tag = hn::CappedTag<Bits, kStep>;
  static HWY_INLINE hn::Vec<Tag> Load(const Bits* from) { return hn::LoadU(Tag(), from); }
};
#if HWY_TARGET != HWY_SCALAR  // which cannot tell halves
template <>
struct Exponents<uint32_t> {
  static constexpr int kShift = 16;
  using Tag = hn::CappedTag<uint16_t, kStep>;
  static HWY_INLINE hn::Vec<Tag> Load(const uint32_t* from) {
    const Tag tag;
    const auto* halves = reinterpret_cast<const uint16_t*>(from);
    return hn::ConcatOdd(tag, hn::LoadU(tag, halves + hn::Lanes(tag)), hn::LoadU(tag, halves));
  }
};
#endif

// How many values are at least each of kFirsts consecutive bins' first.
template <class Format, int kFirsts>
HWY_NOINLINE void CountFrom(const typename Format::Bits* values, size_t n, int bin,
                            uint64_t* counts) {
  using E = Exponents<typename Format::Bits>;
  using Bits = hn::TFromD<typename E::Tag>;
  using Signed = hwy::MakeSigned<Bits>;
  const typename E::Tag tag;
  const hn::RebindToSigned<typename E::Tag>
      ds;  // magnitudes are positive, and signed compares exist
  const auto mask = hn::Set(tag, static_cast<Bits>(~kSignOf<Bits>));
  hn::Vec<decltype(ds)> below[kFirsts], count[kFirsts];
  for (int k = 0; k < kFirsts; ++k) {
    const auto first = static_cast<Signed>(Format::LeastOf(8 * (bin + k) - 127) >> E::kShift);
    below[k] = hn::Set(ds, static_cast<Signed>(first - 1));
    count[k] = hn::Zero(ds);
  }
  for (size_t i = 0; i < n; i += hn::Lanes(tag)) {
    const auto magnitude = hn::BitCast(ds, hn::And(E::Load(values + i), mask));
#pragma GCC unroll 4
    for (int k = 0; k < kFirsts; ++k)
      count[k] = Increment(ds, count[k], hn::Gt(magnitude, below[k]));
  }
  for (int k = 0; k < kFirsts; ++k) counts[k] = Total(ds, count[k]);
}

// The histogram of `non_zero` values whose magnitudes lie between `least` and `most`.
template <class Format>
void AddHistogram(const typename Format::Bits* values, size_t n, double least, double most,
                  uint64_t non_zero, ValueCounts* counts) {
  if (non_zero == 0) return;
  const int last = HistogramBin(most);
  uint64_t left = non_zero;  // at least the first of `bin`
  for (int bin = HistogramBin(least); bin <= last;) {
    uint64_t next[4] = {};
    const int firsts = last - bin < 4 ? last - bin : 4;
    if (firsts == 1) CountFrom<Format, 1>(values, n, bin + 1, next);
    if (firsts == 2) CountFrom<Format, 2>(values, n, bin + 1, next);
    if (firsts == 3) CountFrom<Format, 3>(values, n, bin + 1, next);
    if (firsts == 4) CountFrom<Format, 4>(values, n, bin + 1, next);
    if (firsts == 0) counts->histogram[bin++] += left;
    for (int k = 0; k < firsts; ++k) {
      counts->histogram[bin++] += left - next[k];
      left = next[k];
    }
    if (firsts > 0 && bin == last) {
      counts->histogram[bin++] += left;
    }
  }
}

// ---- a tile

// Copies `n` values with 0 for what is not finite, and counts it; min and max are of the rest.
// Returns how many are finite.
template <class Format>
int Clean(const typename Format::Bits* values, int n, typename Format::Bits* clean,
          ValueCounts* counts, TileMoments* tile) {
  using Bits = typename Format::Bits;
  int finite = 0;
  for (int i = 0; i < n; ++i) {
    const Bits bits = values[i];
    const Bits magnitude = bits & static_cast<Bits>(~kSignOf<Bits>);
    clean[i] = magnitude < Format::kInfinity ? bits : Bits{0};
    if (magnitude < Format::kInfinity) {
      const double x = Format::ToDouble(bits);
      tile->min = x < tile->min ? x : tile->min;
      tile->max = x > tile->max ? x : tile->max;
      ++finite;
    } else if (magnitude > Format::kInfinity) {
      ++counts->nan;
    } else {
      ++(bits == magnitude ? counts->positive_inf : counts->negative_inf);
    }
  }
  return finite;
}

// min and max from the extremes; false: something is not finite.
template <class Format>
bool SetRange(const Extremes<typename Format::Bits>& extremes, TileMoments* tile) {
  using Bits = typename Format::Bits;
  constexpr Bits kSign = kSignOf<Bits>;
  const bool any_negative = (extremes.largest & kSign) != 0;
  const bool any_positive = (extremes.largest_positive & kSign) == 0;
  if (any_negative && static_cast<Bits>(extremes.largest ^ kSign) >= Format::kInfinity)
    return false;
  if (any_positive && extremes.largest_positive >= Format::kInfinity) return false;
  const Bits least = extremes.smallest_magnitude;
  tile->min = Format::ToDouble(any_negative ? extremes.largest : least);
  tile->max =
      Format::ToDouble(any_positive ? extremes.largest_positive : static_cast<Bits>(least | kSign));
  return true;
}

// Zeros and the histogram of `n` values, all finite; `made` of them are zeros put there by Clean.
template <class Format>
void Count(const typename Format::Bits* values, int n, int made, typename Format::Bits least,
           const TileMoments& tile, ValueCounts* counts) {
  using Bits = typename Format::Bits;
  uint64_t zeros = 0;
  if (least == 0) {
    const uint64_t negative = CountEqual<Bits>(values, n, kSignOf<Bits>);
    zeros = CountEqual<Bits>(values, n, 0) + negative - static_cast<uint64_t>(made);
    counts->zeros += zeros;
    counts->negative_zeros += negative;
    least = SmallestNonZero(values, n);
  }
  const double low = TileAbs(tile.min), high = TileAbs(tile.max);
  AddHistogram<Format>(values, n, Format::ToDouble(least), low > high ? low : high,
                       static_cast<uint64_t>(n - made) - zeros, counts);
}

// `elements` values that stand among `n` which are whole vectors.
template <class Format>
TileMoments WholeTile(const typename Format::Bits* values, int elements, int n,
                      ValueCounts* counts) {
  using Bits = typename Format::Bits;
  Extremes<Bits> extremes = Scan(values, n);
  TileMoments tile;
  Bits clean[kTileElements];
  const Bits* finite_values = values;
  int finite = n;
  if (!SetRange<Format>(extremes, &tile)) {
    finite = Clean<Format>(values, n, clean, counts, &tile);
    counts->nan -= static_cast<uint64_t>(n - elements);
    finite_values = clean;
    extremes.smallest_magnitude = 0;
  }
  if (finite == 0) return TileMoments();
  tile.finite = finite;
  tile.min = TileAdd(tile.min, 0);
  tile.max = TileAdd(tile.max, 0);
  tile.scale = TileScale(tile.min, tile.max);
  Count<Format>(finite_values, n, n - finite, extremes.smallest_magnitude, tile, counts);
  const auto as_defined = [&] {
    return MomentsOfTile(elements, [&](int i) { return Format::ToDouble(values[i]); });
  };
  if (tile.scale != 0) return as_defined();
  const Sums sums = Sum<Format>(finite_values, n);
  tile.l1 = sums.l1;
  tile.squares = sums.squares;
  tile.mean = TileDivide(sums.sum, tile.finite);
  if (DeviationsFromSums(sums.sum, tile.mean, tile.squares, &tile.m2)) return tile;
  if (finite != n) return as_defined();
  tile.m2 = Deviations<Format>(values, n, tile.mean);
  return tile;
}

template <class Format>
TileMoments Tile(const std::byte* data, int elements, ValueCounts* counts) {
  using Bits = typename Format::Bits;
  constexpr Bits kNan = static_cast<Bits>(~kSignOf<Bits>);
  const int n = (elements + kStep - 1) / kStep * kStep;
  const bool aligned = reinterpret_cast<uintptr_t>(data) % alignof(Bits) == 0;
  if (n == elements && aligned)
    return WholeTile<Format>(reinterpret_cast<const Bits*>(data), elements, n, counts);
  Bits padded[kTileElements];
  std::memcpy(padded, data, elements * sizeof(Bits));
  for (int i = elements; i < n; ++i) padded[i] = kNan;
  return WholeTile<Format>(padded, elements, n, counts);
}

TileMoments TileWith(RealType type, const std::byte* values, int elements, ValueCounts* counts) {
  switch (type) {
    case RealType::kFloat32:
      return Tile<Float32>(values, elements, counts);
    case RealType::kFloat64:
      return Tile<Float64>(values, elements, counts);
    case RealType::kFloat16:
      return Tile<Float16>(values, elements, counts);
    case RealType::kBFloat16:
      return Tile<BFloat16>(values, elements, counts);
  }
  return {};
}

int64_t Target() { return HWY_TARGET; }

}  // namespace
}  // namespace tdump::io::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tdump::io {
HWY_EXPORT(TileWith);
HWY_EXPORT(Target);

TileMoments TileOf(RealType type, const std::byte* values, int elements, ValueCounts* counts) {
  return HWY_DYNAMIC_DISPATCH(TileWith)(type, values, elements, counts);
}

int64_t TileTarget() { return HWY_DYNAMIC_DISPATCH(Target)(); }

}  // namespace tdump::io
#endif
