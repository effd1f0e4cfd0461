// Lanes of doubles, and how they are loaded from the formats of real numbers. For sources that
// Highway's foreach_target compiles once for each kind of vector: so is this header.
#if defined(TDUMP_COMPARE_REAL_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TDUMP_COMPARE_REAL_LANES_INL_H_
#undef TDUMP_COMPARE_REAL_LANES_INL_H_
#else
#define TDUMP_COMPARE_REAL_LANES_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "compare/pair_tile.h"

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
template <class T>
using Narrow = hn::Rebind<T, Doubles>;

// 16 running sums.
struct Lanes {
  Vector v[kVectors];
  HWY_INLINE Lanes() {
    for (Vector& vector : v) vector = hn::Zero(kDoubles);
  }
  // Lanes 8 apart are added, then 4, 2 and 1.
  HWY_INLINE double Sum() {
    for (size_t width = kVectors / 2; width > 0; width /= 2)
      for (size_t k = 0; k < width; ++k) v[k] = hn::Add(v[k], v[k + width]);
    alignas(64) double lanes[kPerVector];
    hn::Store(v[0], kDoubles, lanes);
#pragma GCC unroll 4
    for (size_t width = kPerVector / 2; width > 0; width /= 2) {
#pragma GCC unroll 4
      for (size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
    }
    return lanes[0];
  }
};

HWY_INLINE double MaxOf(Vector v) { return hn::GetLane(hn::MaxOfLanes(kDoubles, v)); }
HWY_INLINE double MinOf(Vector v) { return hn::GetLane(hn::MinOfLanes(kDoubles, v)); }
HWY_INLINE Vector Larger(Vector a, Vector b) { return hn::Max(hn::Abs(a), hn::Abs(b)); }

// A format, and the vector of numbers at `from`.
struct FromDouble {
  static constexpr size_t kBytes = 8;
  static constexpr bool kExactProducts = false;
  static HWY_INLINE Vector Load(const std::byte* from) {
    return hn::LoadU(kDoubles, reinterpret_cast<const double*>(from));
  }
};

struct FromFloat {
  static constexpr size_t kBytes = 4;
  static constexpr bool kExactProducts = true;
  static HWY_INLINE Vector Load(const std::byte* from) {
    return hn::PromoteTo(kDoubles,
                         hn::LoadU(Narrow<float>(), reinterpret_cast<const float*>(from)));
  }
};

struct FromBFloat16 {
  static constexpr size_t kBytes = 2;
  static constexpr bool kExactProducts = true;
  static HWY_INLINE Vector Load(const std::byte* from) {
    const auto bits = hn::LoadU(Narrow<uint16_t>(), reinterpret_cast<const uint16_t*>(from));
    const auto wide = hn::ShiftLeft<16>(hn::PromoteTo(Narrow<uint32_t>(), bits));
    return hn::PromoteTo(kDoubles, hn::BitCast(Narrow<float>(), wide));
  }
};

// The float16's magnitude, put where a float32's is, times 2^112; exponents of all ones stay so.
struct FromFloat16 {
  static constexpr size_t kBytes = 2;
  static constexpr bool kExactProducts = true;
  static HWY_INLINE Vector Load(const std::byte* from) {
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
};

template <class Body>
HWY_INLINE auto WithFormat(RealType type, const Body& body) {
  switch (type) {
    case RealType::kFloat32:
      return body(FromFloat());
    case RealType::kBFloat16:
      return body(FromBFloat16());
    case RealType::kFloat16:
      return body(FromFloat16());
    case RealType::kFloat64:
      break;
  }
  return body(FromDouble());
}

template <class Body>
HWY_INLINE auto WithNarrowFormat(RealType type, const Body& body) {
  if (type == RealType::kFloat32) return body(FromFloat());
  if (type == RealType::kBFloat16) return body(FromBFloat16());
  return body(FromFloat16());
}

// Of two that AreReadTogether.
template <class Body>
HWY_INLINE auto WithFormats(RealType a, RealType b, const Body& body) {
  if (a == RealType::kFloat64) return body(FromDouble(), FromDouble());
  return WithNarrowFormat(a, [&](auto left) {
    return WithNarrowFormat(b, [&](auto right) { return body(left, right); });
  });
}

// Calls body(k, i) for the vector of pairs at i, which belongs to the k-th vector of lanes. The
// sides hold zeros up to a multiple of kLanes, which change no sum, no maximum and no count.
template <class Body>
HWY_INLINE void ForEachVector(size_t n, const Body& body) {
  for (size_t i = 0; i < n; i += kLanes) {
#pragma GCC unroll 16
    for (size_t k = 0; k < kVectors; ++k) body(k, i + k * kPerVector);
  }
}

// A side that is not a whole number of lanes, with zeros behind it.
template <class Format>
struct Padded {
  alignas(64) std::byte values[kPairTile * Format::kBytes];
  const std::byte* data;

  Padded(const std::byte* numbers, size_t n) : data(numbers) {
    if (n % kLanes == 0) return;
    std::memcpy(values, numbers, n * Format::kBytes);
    const size_t end = (n + kLanes - 1) / kLanes * kLanes;
    std::memset(values + n * Format::kBytes, 0, (end - n) * Format::kBytes);
    data = values;
  }
  HWY_INLINE Vector Load(size_t i) const { return Format::Load(data + i * Format::kBytes); }
};

// acc + x * y, the product rounded unless it is exact.
template <bool kExact>
HWY_INLINE Vector Accumulate(Vector x, Vector y, Vector acc) {
  if constexpr (kExact) return hn::MulAdd(x, y, acc);
  return hn::Add(acc, hn::Mul(x, y));
}

}  // namespace
}  // namespace tdump::compare::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TDUMP_COMPARE_REAL_LANES_INL_H_
