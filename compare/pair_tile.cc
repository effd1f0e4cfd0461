// Compiled once for each kind of vector (Highway's foreach_target).
#include "compare/pair_tile.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "compare/error_bins.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compare/pair_tile.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "compare/real_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tdump::compare::HWY_NAMESPACE {
namespace {

HWY_INLINE Vector Excess(Vector x, Vector y, Vector factor) {
  return hn::Sub(hn::Abs(hn::Sub(y, x)), hn::Mul(factor, Larger(x, y)));
}

// |e| in ULP is |e| * 2^(mantissa_bits - exponent of the larger number): a sum in the exponent's
// field. Here in the upper 16 bits of a double but its sign, as ErrorBins counts them, which are
// enough for the bins.
HWY_INLINE void BinUlps(size_t n, const UlpScale& ulp, PairScratch* scratch, PairMoments* m) {
  const hn::CappedTag<uint16_t, 32> words;
  const hn::Rebind<uint8_t, decltype(words)> bytes;
  const size_t step = hn::Lanes(words);
  const size_t end = (n + step - 1) / step * step;
  std::fill(scratch->bin + n, scratch->bin + end, uint16_t{0});
  std::fill(scratch->exponent + n, scratch->exponent + end, uint16_t{0});
  const auto word = [&](int value) { return hn::Set(words, static_cast<uint16_t>(value)); };
  const auto none = word(0), all = word(0xFFFF), one = word(1);
  const auto least_exponent = word(ulp.least_exponent + 1023);
  const auto add = word((1023 + ulp.mantissa_bits) << 5), bin_of_one = word(1023 - 2);
  auto least = all, largest = none;
  for (size_t i = 0; i < end; i += step) {
    const auto bin = hn::Load(words, scratch->bin + i);
    const auto zero = hn::Eq(hn::ShiftRight<4>(bin), none);
    const auto exponent = hn::Max(hn::Load(words, scratch->exponent + i), least_exponent);
    const auto ulps =
        hn::IfThenZeroElse(zero, hn::Add(hn::Sub(bin, hn::ShiftLeft<5>(exponent)), add));
    least = hn::Min(least, hn::IfThenElse(zero, all, bin));
    largest = hn::Max(largest, ulps);
    const auto ulp_bin = hn::Max(hn::SaturatedSub(hn::ShiftRight<5>(ulps), bin_of_one), one);
    hn::StoreU(hn::TruncateTo(bytes, hn::IfThenZeroElse(zero, ulp_bin)), bytes,
               scratch->ulp_bin + i);
  }
  m->max_ulp_bin = hn::GetLane(hn::MaxOfLanes(words, largest));
  m->least_bin = hn::GetLane(hn::MinOfLanes(words, least));
}

template <class FormatA, class FormatB>
HWY_NOINLINE double MaxUlpsAs(const std::byte* left, const std::byte* right, size_t n,
                              const UlpScale& ulp) {
  const Padded<FormatA> a(left, n);
  const Padded<FormatB> b(right, n);
  const auto exponents = hn::Set(kWords, int64_t{0x7FF} << 52);
  const auto least = hn::Set(kWords, int64_t{ulp.least_exponent + 1023} << 52);
  const auto add = hn::Set(kWords, int64_t{1023 + ulp.mantissa_bits} << 52);
  const Vector zero = hn::Zero(kDoubles);
  Vector largest = zero;
  ForEachVector(n, [&](size_t, size_t i) {
    const Vector x = a.Load(i), y = b.Load(i);
    const Vector magnitude = hn::Abs(hn::Sub(y, x));
    const auto exponent = hn::Max(hn::And(hn::BitCast(kWords, Larger(x, y)), exponents), least);
    const auto bits = hn::Add(hn::Sub(hn::BitCast(kWords, magnitude), exponent), add);
    const Vector ulps = hn::IfThenElseZero(hn::Gt(magnitude, zero), hn::BitCast(kDoubles, bits));
    largest = hn::Max(largest, ulps);
  });
  return MaxOf(largest);
}

template <class FormatA, class FormatB>
HWY_INLINE uint64_t OppositeZeros(const Padded<FormatA>& a, const Padded<FormatB>& b, size_t n) {
  uint64_t count = 0;
  ForEachVector(n, [&](size_t, size_t i) {
    const auto x = hn::BitCast(kWords, a.Load(i)), y = hn::BitCast(kWords, b.Load(i));
    const auto magnitudes = hn::Add(hn::Or(x, y), hn::Or(x, y));  // without the sign
    const auto none = hn::Eq(magnitudes, hn::Zero(kWords));
    count += hn::CountTrue(kWords, hn::And(none, hn::Lt(hn::Xor(x, y), hn::Zero(kWords))));
  });
  return count;
}

template <class FormatA, class FormatB>
HWY_NOINLINE PairMoments MomentsAs(const std::byte* left, const std::byte* right, size_t n,
                                   double bound, const UlpScale& ulp, PairScratch* scratch) {
  constexpr bool kExact = FormatA::kExactProducts && FormatB::kExactProducts;
  const Padded<FormatA> a(left, n);
  const Padded<FormatB> b(right, n);
  const Vector zero = hn::Zero(kDoubles);
  const Vector least_normal = hn::Set(kDoubles, 0x1p-1022);
  const Narrow<uint16_t> narrow;
  const hn::RebindToUnsigned<Doubles> unsigned_words;
  Lanes sum, absolute, square, square_a, square_b, product, relative;
  const Vector factor = hn::Set(kDoubles, bound);
  Vector largest = zero, largest_error = zero, largest_ratio = zero, excess = zero;
  Vector smallest = hn::Set(kDoubles, std::numeric_limits<double>::max());  // of the larger ones
  auto signs = hn::Zero(unsigned_words);
  ForEachVector(n, [&](size_t k, size_t i) {
    const Vector x = a.Load(i), y = b.Load(i);
    const Vector e = hn::Sub(y, x);
    const Vector magnitude = hn::Abs(e), larger = Larger(x, y);
    hn::StoreU(e, kDoubles, scratch->error + i);
    sum.v[k] = hn::Add(sum.v[k], e);
    absolute.v[k] = hn::Add(absolute.v[k], magnitude);
    square.v[k] = hn::Add(square.v[k], hn::Mul(e, e));
    square_a.v[k] = Accumulate<kExact>(x, x, square_a.v[k]);
    square_b.v[k] = Accumulate<kExact>(y, y, square_b.v[k]);
    product.v[k] = Accumulate<kExact>(x, y, product.v[k]);
    const Vector ratio = hn::Div(magnitude, hn::Max(larger, least_normal));
    relative.v[k] = hn::Add(relative.v[k], ratio);
    largest_ratio = hn::Max(largest_ratio, ratio);
    largest_error = hn::Max(largest_error, magnitude);
    excess = hn::Max(excess, hn::Sub(magnitude, hn::Mul(factor, larger)));
    if constexpr (!kExact) largest = hn::Max(largest, larger);
    smallest = hn::Min(smallest, larger);
    const auto nonzero = hn::Gt(magnitude, zero);
    const auto differing = hn::Xor(hn::BitCast(kWords, x), hn::BitCast(kWords, y));
    signs = hn::Add(signs, hn::ShiftRight<63>(hn::BitCast(unsigned_words, differing)));

    const auto bin = hn::ShiftRight<ErrorBins::kShift>(hn::BitCast(unsigned_words, magnitude));
    const auto unused = hn::Iota(unsigned_words, k * kPerVector);
    hn::StoreU(hn::TruncateTo(narrow,
                              hn::IfThenElse(hn::RebindMask(unsigned_words, nonzero), bin, unused)),
               narrow, scratch->bin + i);
    const auto exponent = hn::ShiftRight<52>(hn::BitCast(unsigned_words, larger));
    hn::StoreU(hn::TruncateTo(narrow, exponent), narrow, scratch->exponent + i);
  });
  PairMoments m;
  m.abs_error = absolute.Sum();
  m.usable = std::isfinite(m.abs_error);
  if (!m.usable) return m;
  BinUlps(n, ulp, scratch, &m);
  if constexpr (!kExact) {
    const double most = MaxOf(largest);
    m.usable = most == 0 ||
               (most <= 0x1p480 && most >= 0x1p-480 && m.least_bin >= ErrorBins::BinOf(0x1p-480));
    if (!m.usable) return m;
  }
  m.error = sum.Sum();
  m.square_error = square.Sum();
  m.square_a = square_a.Sum();
  m.square_b = square_b.Sum();
  m.product = product.Sum();
  m.relative = relative.Sum();
  m.max_abs = MaxOf(largest_error);
  m.max_relative = MaxOf(largest_ratio);
  m.sign_mismatches = hn::GetLane(hn::SumOfLanes(unsigned_words, signs));
  m.max_excess = MaxOf(excess);
  if (m.sign_mismatches != 0 && MinOf(smallest) == 0)
    m.zero_sign_mismatches = OppositeZeros(a, b, n);
  return m;
}

PairMoments Moments(const Reals& a, const Reals& b, size_t n, double bound, const UlpScale& ulp,
                    PairScratch* scratch) {
  return WithFormats(a.type, b.type, [&](auto left, auto right) {
    return MomentsAs<decltype(left), decltype(right)>(a.bytes, b.bytes, n, bound, ulp, scratch);
  });
}

double MaxUlps(const Reals& a, const Reals& b, size_t n, const UlpScale& ulp) {
  return WithFormats(a.type, b.type, [&](auto left, auto right) {
    return MaxUlpsAs<decltype(left), decltype(right)>(a.bytes, b.bytes, n, ulp);
  });
}

double MaxExcess(const Reals& a, const Reals& b, size_t n, double bound) {
  return WithFormats(a.type, b.type, [&](auto left, auto right) {
    const Padded<decltype(left)> from_a(a.bytes, n);
    const Padded<decltype(right)> from_b(b.bytes, n);
    const Vector factor = hn::Set(kDoubles, bound);
    Vector largest = hn::Zero(kDoubles);
    ForEachVector(n, [&](size_t, size_t i) {
      largest = hn::Max(largest, Excess(from_a.Load(i), from_b.Load(i), factor));
    });
    return MaxOf(largest);
  });
}

void Subtract(const Reals& a, const Reals& b, size_t n, double* errors) {
  WithFormats(a.type, b.type, [&](auto left, auto right) {
    const Padded<decltype(left)> from_a(a.bytes, n);
    const Padded<decltype(right)> from_b(b.bytes, n);
    ForEachVector(n, [&](size_t, size_t i) {
      hn::StoreU(hn::Sub(from_b.Load(i), from_a.Load(i)), kDoubles, errors + i);
    });
  });
}

double Squares(const Reals& numbers, size_t n) {
  return WithFormat(numbers.type, [&](auto format) {
    using Format = decltype(format);
    const Padded<Format> padded(numbers.bytes, n);
    Lanes squares;
    ForEachVector(n, [&](size_t k, size_t i) {
      const Vector x = padded.Load(i);
      squares.v[k] = Accumulate<Format::kExactProducts>(x, x, squares.v[k]);
    });
    return squares.Sum();
  });
}

uint64_t Outside(const Reals& a, const Reals& b, size_t n, double relative, double absolute) {
  return WithFormats(a.type, b.type, [&](auto left, auto right) {
    const Padded<decltype(left)> from_a(a.bytes, n);
    const Padded<decltype(right)> from_b(b.bytes, n);
    const Vector factor = hn::Set(kDoubles, relative), limit = hn::Set(kDoubles, absolute);
    uint64_t outside = 0;
    ForEachVector(n, [&](size_t, size_t i) {
      const Vector excess = Excess(from_a.Load(i), from_b.Load(i), factor);
      outside += hn::CountTrue(kDoubles, hn::Gt(excess, limit));
    });
    return outside;
  });
}

// A pass for each bin that may be there; where they are many, a counter for each number.
void Ulps(const uint8_t* bins, size_t n, uint64_t* counts) {
  constexpr uint8_t kMostPasses = 24;
  const hn::CappedTag<uint8_t, 64> bytes;
  const size_t step = hn::Lanes(bytes);
  const size_t whole = n / step * step;
  const hn::CappedTag<uint16_t, 32> words;
  auto largest = hn::Zero(words);
  for (size_t i = 0; i < whole; i += hn::Lanes(words)) {
    const auto some = hn::LoadU(hn::Rebind<uint8_t, decltype(words)>(), bins + i);
    largest = hn::Max(largest, hn::PromoteTo(words, some));
  }
  const auto last = static_cast<uint8_t>(hn::GetLane(hn::MaxOfLanes(words, largest)));
  size_t counted = 0;
  if (last < kMostPasses) {
    for (uint8_t bin = 0; bin <= last; ++bin) {
      const auto wanted = hn::Set(bytes, bin);
      uint64_t count = 0;
      for (size_t i = 0; i < whole; i += step)
        count += hn::CountTrue(bytes, hn::Eq(hn::LoadU(bytes, bins + i), wanted));
      counts[bin] += count;
    }
    counted = whole;
  }
  for (size_t i = counted; i < n; ++i) ++counts[bins[i]];
}

void AddAll(double* sums, const double* numbers, size_t n) {
  size_t i = 0;
  for (; i + kPerVector <= n; i += kPerVector) {
    hn::StoreU(hn::Add(hn::LoadU(kDoubles, sums + i), hn::LoadU(kDoubles, numbers + i)), kDoubles,
               sums + i);
  }
  for (; i < n; ++i) sums[i] += numbers[i];
}

void Decode(const Reals& numbers, std::span<double> out) {
  WithFormat(numbers.type, [&](auto format) {
    using Format = decltype(format);
    const size_t whole = out.size() / kPerVector * kPerVector;
    for (size_t i = 0; i < whole; i += kPerVector)
      hn::StoreU(Format::Load(numbers.bytes + i * Format::kBytes), kDoubles, out.data() + i);
    if (whole == out.size()) return;
    alignas(64) std::byte rest[kPerVector * Format::kBytes] = {};
    alignas(64) double decoded[kPerVector];
    std::memcpy(rest, numbers.bytes + whole * Format::kBytes,
                (out.size() - whole) * Format::kBytes);
    hn::Store(Format::Load(rest), kDoubles, decoded);
    std::copy_n(decoded, out.size() - whole, out.data() + whole);
  });
}

}  // namespace
}  // namespace tdump::compare::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tdump::compare {
HWY_EXPORT(Moments);
HWY_EXPORT(MaxUlps);
HWY_EXPORT(MaxExcess);
HWY_EXPORT(Subtract);
HWY_EXPORT(Squares);
HWY_EXPORT(Outside);
HWY_EXPORT(Ulps);
HWY_EXPORT(AddAll);
HWY_EXPORT(Decode);

PairMoments MomentsOf(const Reals& a, const Reals& b, size_t n, double bound, const UlpScale& ulp,
                      PairScratch* scratch) {
  return HWY_DYNAMIC_DISPATCH(Moments)(a, b, n, bound, ulp, scratch);
}
double MaxUlpsOf(const Reals& a, const Reals& b, size_t n, const UlpScale& ulp) {
  return HWY_DYNAMIC_DISPATCH(MaxUlps)(a, b, n, ulp);
}
double MaxExcessOf(const Reals& a, const Reals& b, size_t n, double bound) {
  return HWY_DYNAMIC_DISPATCH(MaxExcess)(a, b, n, bound);
}
void SubtractEach(const Reals& a, const Reals& b, size_t n, double* errors) {
  HWY_DYNAMIC_DISPATCH(Subtract)(a, b, n, errors);
}
double SquaresOf(const Reals& numbers, size_t n) {
  return HWY_DYNAMIC_DISPATCH(Squares)(numbers, n);
}
uint64_t CountOutside(const Reals& a, const Reals& b, size_t n, double relative, double absolute) {
  return HWY_DYNAMIC_DISPATCH(Outside)(a, b, n, relative, absolute);
}
void CountUlps(const uint8_t* bins, size_t n, uint64_t* counts) {
  HWY_DYNAMIC_DISPATCH(Ulps)(bins, n, counts);
}
void AddEach(double* sums, const double* numbers, size_t n) {
  HWY_DYNAMIC_DISPATCH(AddAll)(sums, numbers, n);
}
void DecodeReal(const Reals& numbers, std::span<double> out) {
  HWY_DYNAMIC_DISPATCH(Decode)(numbers, out);
}

}  // namespace tdump::compare
#endif
