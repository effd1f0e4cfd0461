// Compiled once for each kind of vector (Highway's foreach_target).
#include "compare/bfloat16_tile.h"

#include <algorithm>

#include "compare/error_bins.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compare/bfloat16_tile.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "compare/real_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tdump::compare::HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR
// One number at a time, for which the other loop is as good.
BFloat16Look Look(const std::byte*, const std::byte*, size_t) { return {}; }
PairMoments BFloat16Moments(const std::byte*, const std::byte*, size_t, double, const BFloat16Look&,
                            const TileChannels&, uint32_t*, PairScratch*) {
  return {};
}
#else

using Patterns = hn::CappedTag<uint16_t, kBFloat16Block>;
using Wide = hn::RepartitionToWide<Patterns>;
using Floats = hn::RebindToFloat<Wide>;
using Pattern = hn::Vec<Patterns>;
using FloatVector = hn::Vec<Floats>;
constexpr Patterns kPatterns;
constexpr Wide kWide;
constexpr Floats kFloats;
constexpr size_t kNumbers = hn::MaxLanes(Patterns());  // of a vector
static_assert(kBFloat16Block == ErrorBins::kBlock);

constexpr int kMantissaBits = kBFloat16Ulp.mantissa_bits;
constexpr int kBias = 127;
constexpr uint16_t kMagnitude = 0x7FFF, kInfinity = 0x7F80;
constexpr uint16_t kHuge = 0x7F00;  // 2^127: of smaller ones the difference is a float
constexpr uint16_t kLeastNormal = 1 << kMantissaBits;
// Errors are multiples of 2^-7 of the smallest number: far from what a float does not hold.
constexpr uint16_t kTiny = (kBias - 80) << kMantissaBits;
// With exponents no farther apart than this the 8 bits of one and of the other are within 24.
constexpr uint16_t kApart = 15 << kMantissaBits;
// From 5 bits of the mantissa under an exponent of float's bias to a bin of ErrorBins.
constexpr int kBinShift = kMantissaBits - (52 - ErrorBins::kShift);
constexpr uint16_t kBinOffset = (1023 - kBias) << (52 - ErrorBins::kShift);

HWY_INLINE Pattern Set16(int value) { return hn::Set(kPatterns, static_cast<uint16_t>(value)); }
HWY_INLINE Pattern LoadPatterns(const std::byte* from) {
  return hn::LoadU(kPatterns, reinterpret_cast<const uint16_t*>(from));
}
HWY_INLINE Pattern Magnitude(Pattern v) { return hn::And(v, Set16(kMagnitude)); }

HWY_INLINE uint16_t LargestOf(Pattern v) { return hn::GetLane(hn::MaxOfLanes(kPatterns, v)); }
HWY_INLINE uint16_t SmallestOf(Pattern v) { return hn::GetLane(hn::MinOfLanes(kPatterns, v)); }
HWY_INLINE float LargestFloatOf(FloatVector v) { return hn::GetLane(hn::MaxOfLanes(kFloats, v)); }

// The numbers at even (0) or odd (1) places.
template <size_t kParity>
HWY_INLINE FloatVector Widen(Pattern v) {
  const auto wide = hn::BitCast(kWide, v);
  if constexpr (kParity == 0)
    return hn::BitCast(kFloats, hn::ShiftLeft<16>(wide));
  else
    return hn::BitCast(kFloats, hn::And(wide, hn::Set(kWide, 0xFFFF'0000)));
}

// The upper 16 bits of both in the places they came from.
HWY_INLINE Pattern Narrowed(FloatVector even, FloatVector odd) {
  const auto low = hn::ShiftRight<16>(hn::BitCast(kWide, even));
  const auto high = hn::And(hn::BitCast(kWide, odd), hn::Set(kWide, 0xFFFF'0000));
  return hn::BitCast(kPatterns, hn::Or(low, high));
}

template <size_t kHalf>
HWY_INLINE Vector HalfOf(FloatVector v) {
  const hn::Half<Floats> half;
  if constexpr (kHalf == 0)
    return hn::PromoteTo(kDoubles, hn::LowerHalf(half, v));
  else
    return hn::PromoteTo(kDoubles, hn::UpperHalf(half, v));
}

// The 16 lanes of Lanes: even ones in the first vectors, odd ones in the others.
constexpr size_t kSlots = kVectors / 2;
struct SplitLanes {
  Vector v[2][kSlots];

  HWY_INLINE SplitLanes() {
    for (auto& parity : v)
      for (Vector& vector : parity) vector = hn::Zero(kDoubles);
  }
  // Lanes 8 apart are added, then 4, 2 and 1, of which the last are the even and the odd ones.
  HWY_INLINE double Sum() {
    for (size_t width = kSlots / 2; width > 0; width /= 2)
      for (Vector* lanes : {v[0], v[1]})
        for (size_t k = 0; k < width; ++k) lanes[k] = hn::Add(lanes[k], lanes[k + width]);
    Vector both = hn::Add(hn::ConcatLowerLower(kDoubles, v[1][0], v[0][0]),
                          hn::ConcatUpperUpper(kDoubles, v[1][0], v[0][0]));
    if constexpr (kPerVector >= 8) both = hn::Add(both, hn::SwapAdjacentBlocks(both));
    if constexpr (kPerVector >= 4) both = hn::Add(both, hn::Shuffle01(both));
    return hn::GetLane(both) + hn::ExtractLane(both, kPerVector / 2);
  }
};

uint64_t OppositeZeros(const std::byte* a, const std::byte* b, size_t n) {
  uint64_t count = 0;
  for (size_t i = 0; i < n; i += kNumbers) {
    const auto x = LoadPatterns(a + 2 * i), y = LoadPatterns(b + 2 * i);
    const auto zeros = hn::Eq(Magnitude(hn::Or(x, y)), Set16(0));
    count += hn::CountTrue(kPatterns, hn::And(zeros, hn::Ne(x, y)));
  }
  return count;
}

// Whether every pair is within kApart. 0 is near to everything.
bool AreNear(const std::byte* a, const std::byte* b, size_t n) {
  const auto apart = Set16(kApart);
  auto far = Set16(0);
  for (size_t i = 0; i < n; i += kNumbers) {
    const auto left = Magnitude(LoadPatterns(a + 2 * i)),
               right = Magnitude(LoadPatterns(b + 2 * i));
    const auto larger = hn::Max(left, right), smaller = hn::Min(left, right);
    far = hn::Or(far, hn::Min(smaller, hn::SaturatedSub(larger, hn::Add(smaller, apart))));
  }
  return LargestOf(far) == 0;
}

BFloat16Look Look(const std::byte* a, const std::byte* b, size_t n) {
  const auto one = Set16(1);
  auto largest = Set16(0), signs = Set16(0);
  auto least = Set16(0xFFFF), smallest = least;  // of the larger ones; of those but 0, less 1
  for (size_t i = 0; i < n; i += kNumbers) {
    const auto x = LoadPatterns(a + 2 * i), y = LoadPatterns(b + 2 * i);
    const auto left = Magnitude(x), right = Magnitude(y);
    const auto larger = hn::Max(left, right);
    largest = hn::Max(largest, larger);
    least = hn::Min(least, larger);
    smallest = hn::Min(smallest, hn::Min(hn::Sub(left, one), hn::Sub(right, one)));
    signs = hn::Add(signs, hn::ShiftRight<15>(hn::Xor(x, y)));
  }
  BFloat16Look look;
  const int most = LargestOf(largest), smallest_of_all = SmallestOf(smallest);
  look.usable = most < kHuge && smallest_of_all >= kTiny &&
                (most - smallest_of_all <= kApart || AreNear(a, b, n));
  if (!look.usable) return look;
  look.sign_mismatches = hn::GetLane(hn::SumOfLanes(kPatterns, signs));
  if (look.sign_mismatches != 0 && SmallestOf(least) == 0)
    look.zero_sign_mismatches = OppositeZeros(a, b, n);
  return look;
}

// What the loop carries along.
struct Sums {
  SplitLanes error, absolute, square, square_a, square_b, product, relative;
  Vector largest_ratio;
  FloatVector largest_error, excess;
  Pattern least, most_ulps;  // least: of those but 0, less 1
  Pattern unused;            // bins

  HWY_INLINE Sums()
      : largest_ratio(hn::Zero(kDoubles)),
        largest_error(hn::Zero(kFloats)),
        excess(hn::Zero(kFloats)),
        least(Set16(0xFFFF)),
        most_ulps(Set16(0)),
        unused(hn::And(hn::Iota(kPatterns, 0), Set16(ErrorBins::kUnused - 1))) {}

  // Of the vector that lies kAt numbers into its block. kHalf: of those of one parity.
  template <size_t kAt, size_t kParity, size_t kHalf>
  HWY_INLINE void AddHalf(FloatVector a, FloatVector b, FloatVector larger, double* channels) {
    constexpr size_t kPlace = kAt + 2 * kHalf * kPerVector;
    constexpr size_t kSlot = kPlace % kLanes / (2 * kPerVector);
    const Vector x = HalfOf<kHalf>(a), y = HalfOf<kHalf>(b);
    const Vector e = hn::Sub(y, x), magnitude = hn::Abs(e);
    const Vector ratio = hn::Div(magnitude, HalfOf<kHalf>(larger));
    error.v[kParity][kSlot] = hn::Add(error.v[kParity][kSlot], e);
    absolute.v[kParity][kSlot] = hn::Add(absolute.v[kParity][kSlot], magnitude);
    square.v[kParity][kSlot] = Accumulate<true>(e, e, square.v[kParity][kSlot]);
    square_a.v[kParity][kSlot] = Accumulate<true>(x, x, square_a.v[kParity][kSlot]);
    square_b.v[kParity][kSlot] = Accumulate<true>(y, y, square_b.v[kParity][kSlot]);
    product.v[kParity][kSlot] = Accumulate<true>(x, y, product.v[kParity][kSlot]);
    relative.v[kParity][kSlot] = hn::Add(relative.v[kParity][kSlot], ratio);
    largest_ratio = hn::Max(largest_ratio, ratio);
    if (channels == nullptr) return;
    double* sums = channels + kParity * (kBFloat16Block / 2) + kPlace / 2;
    hn::StoreU(hn::Add(hn::LoadU(kDoubles, sums), e), kDoubles, sums);
  }

  // Returns the magnitudes of the errors.
  template <size_t kAt, size_t kParity>
  HWY_INLINE FloatVector AddParity(Pattern a, Pattern b, Pattern larger, FloatVector factor,
                                   double* channels) {
    const auto x = Widen<kParity>(a), y = Widen<kParity>(b), z = Widen<kParity>(larger);
    const FloatVector magnitude = hn::Abs(hn::Sub(y, x));
    largest_error = hn::Max(largest_error, magnitude);
    excess = hn::Max(excess, hn::NegMulAdd(factor, z, magnitude));
    AddHalf<kAt, kParity, 0>(x, y, z, channels);
    AddHalf<kAt, kParity, 1>(x, y, z, channels);
    return magnitude;
  }

  // `error`: magnitudes, whose lower bits are cut off.
  HWY_INLINE void Bin(Pattern error, Pattern larger, uint16_t* bins, uint8_t* ulp_bins) {
    const hn::Rebind<uint8_t, Patterns> bytes;
    const auto zero = hn::Eq(error, Set16(0));
    least = hn::Min(least, hn::Sub(error, Set16(1)));
    const auto bin = hn::Add(hn::ShiftRight<kBinShift>(error), Set16(kBinOffset));
    hn::StoreU(hn::IfThenElse(zero, unused, bin), kPatterns, bins);
    // The exponent is 2 above that of the error in ULP, which is at least a half or 0.
    const auto raised = hn::Add(error, Set16((kMantissaBits + 2) << kMantissaBits));
    const auto exponent = hn::And(larger, Set16(kInfinity));
    const auto ulps = hn::IfThenZeroElse(zero, hn::SaturatedSub(raised, exponent));
    most_ulps = hn::Max(most_ulps, ulps);
    hn::StoreU(hn::TruncateTo(bytes, hn::ShiftRight<kMantissaBits>(ulps)), bytes, ulp_bins);
  }

  template <size_t kAt = 0>
  HWY_INLINE void AddBlock(const std::byte* a, const std::byte* b, FloatVector factor,
                           double* channels, uint16_t* bins, uint8_t* ulp_bins) {
    const Pattern x = LoadPatterns(a + 2 * kAt), y = LoadPatterns(b + 2 * kAt);
    // 0 / 0 is 0.
    const Pattern larger = hn::Max(hn::Max(Magnitude(x), Magnitude(y)), Set16(kLeastNormal));
    const FloatVector even = AddParity<kAt, 0>(x, y, larger, factor, channels);
    const FloatVector odd = AddParity<kAt, 1>(x, y, larger, factor, channels);
    Bin(Narrowed(even, odd), larger, bins + kAt, ulp_bins + kAt);
    if constexpr (kAt + kNumbers < kBFloat16Block)
      AddBlock<kAt + kNumbers>(a, b, factor, channels, bins, ulp_bins);
  }
};

PairMoments BFloat16Moments(const std::byte* a, const std::byte* b, size_t n, double bound,
                            const BFloat16Look& look, const TileChannels& channels, uint32_t* bins,
                            PairScratch* scratch) {
  Sums sums;
  // A little less than the bound: what is above 0 with that is so with this.
  const auto factor = hn::Set(kFloats, static_cast<float>(bound * (1 - 0x1p-21)));
  constexpr size_t kLag = 4 * kBFloat16Block;
  uint64_t channel = channels.first;
  for (size_t i = 0; i < n; i += kBFloat16Block) {
    double* to = channels.sums == nullptr ? nullptr : channels.sums + channel;
    sums.AddBlock(a + 2 * i, b + 2 * i, factor, to, scratch->bin + i, scratch->ulp_bin + i);
    // Beside the arithmetic, which leaves the units for it idle; of what was stored a while ago.
    if (i >= kLag) ErrorBins::CountBlock(scratch->bin + i - kLag, bins);
    channel += kBFloat16Block;
    if (channel == channels.count) channel = 0;
  }
  for (size_t i = n - std::min(n, kLag); i < n; i += kBFloat16Block)
    ErrorBins::CountBlock(scratch->bin + i, bins);

  PairMoments m;
  m.usable = true;
  m.error = sums.error.Sum();
  m.abs_error = sums.absolute.Sum();
  m.square_error = sums.square.Sum();
  m.square_a = sums.square_a.Sum();
  m.square_b = sums.square_b.Sum();
  m.product = sums.product.Sum();
  m.relative = sums.relative.Sum();
  m.max_abs = LargestFloatOf(sums.largest_error);
  m.max_relative = MaxOf(sums.largest_ratio);
  m.max_excess = LargestFloatOf(sums.excess);
  m.sign_mismatches = look.sign_mismatches;
  m.zero_sign_mismatches = look.zero_sign_mismatches;
  const uint16_t least = SmallestOf(sums.least), ulps = LargestOf(sums.most_ulps);
  const size_t least_bin = ((least + 1u) >> kBinShift) + kBinOffset;
  m.least_bin = least == 0xFFFF ? ErrorBins::kBins - 1 : least_bin;
  m.max_ulp_bin = ulps == 0 ? 0 : (ulps >> kBinShift) + ErrorBins::BinOf(0x1p-2);
  return m;
}

#endif

}  // namespace
}  // namespace tdump::compare::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tdump::compare {
HWY_EXPORT(Look);
HWY_EXPORT(BFloat16Moments);

BFloat16Look LookAtBFloat16(const std::byte* a, const std::byte* b, size_t n) {
  return HWY_DYNAMIC_DISPATCH(Look)(a, b, n);
}
PairMoments MomentsOfBFloat16(const std::byte* a, const std::byte* b, size_t n, double bound,
                              const BFloat16Look& look, const TileChannels& channels,
                              uint32_t* bins, PairScratch* scratch) {
  return HWY_DYNAMIC_DISPATCH(BFloat16Moments)(a, b, n, bound, look, channels, bins, scratch);
}

}  // namespace tdump::compare
#endif
