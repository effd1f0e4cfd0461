#include "io/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#define HWY_COMPILE_ALL_ATTAINABLE  // as io/statistics_tile.cc
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "io/statistics_tile.h"
#include "io/value.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace tdump::io {
namespace {

const DType kFloat32 = MakeDType("float32", 32);
const DType kFloat64 = MakeDType("float64", 64);
const DType kHalf = MakeDType("float16", 16);
const DType kBFloat16 = MakeDType("bfloat16", 16);

template <class T>
Statistics Of(const DType& dtype, const std::vector<T>& values) {
  return StatisticsOf(dtype, std::as_bytes(std::span(values)));
}

uint16_t ToBFloat16(float value) { return std::bit_cast<uint32_t>(value) >> 16; }

template <class T>
std::vector<T> RandomBits(size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<T> values(n);
  for (T& value : values) value = static_cast<T>(random());
  return values;
}

std::vector<float> Normal(size_t n, float mean = 0) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(mean, 1);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

// Straight from the definition: MomentsOfTile over the elements, merged level by level.
TileMoments Defined(const std::vector<double>& values) {
  std::vector<TileMoments> level;
  for (size_t at = 0; at < values.size(); at += kTileElements) {
    const size_t n = std::min<size_t>(kTileElements, values.size() - at);
    level.push_back(MomentsOfTile(static_cast<int>(n), [&](int i) { return values[at + i]; }));
  }
  while (level.size() > 1) {
    std::vector<TileMoments> next;
    for (size_t i = 0; i < level.size(); i += 2)
      next.push_back(i + 1 < level.size() ? Merge(level[i], level[i + 1]) : level[i]);
    level = next;
  }
  return level.empty() ? TileMoments() : level[0];
}

void ExpectSame(double a, double b) {
  EXPECT_EQ(std::bit_cast<uint64_t>(a), std::bit_cast<uint64_t>(b)) << a << " " << b;
}

// What does not differ from kind to kind. `values`: of the elements, NaN for one that takes no
// part.
void ExpectMoments(const Statistics& got, const std::vector<double>& values) {
  const Statistics want = FinishStatistics(got.kind, got.count, {}, Defined(values));
  EXPECT_EQ(got.count, values.size());
  EXPECT_EQ(got.finite, want.finite);
  ExpectSame(got.min, want.min);
  ExpectSame(got.max, want.max);
  ExpectSame(got.std, want.std);
  ExpectSame(got.l1, want.l1);
  ExpectSame(got.l2, want.l2);
  ValueCounts counts;
  for (const double x : values) {
    counts.zeros += x == 0;
    if (std::isfinite(x) && x != 0) ++counts.histogram[HistogramBin(x)];
  }
  EXPECT_EQ(got.zeros, counts.zeros);
  EXPECT_THAT(got.histogram, testing::ElementsAreArray(counts.histogram));
}

// `parts`: of the elements, or of their real and imaginary parts.
void ExpectSpecials(const Statistics& got, const std::vector<double>& parts) {
  ValueCounts counts;
  for (const double x : parts) {
    counts.nan += std::isnan(x);
    counts.positive_inf += x > 0 && std::isinf(x);
    counts.negative_inf += x < 0 && std::isinf(x);
    counts.negative_zeros += x == 0 && std::signbit(x);
  }
  EXPECT_EQ(got.nan, counts.nan);
  EXPECT_EQ(got.positive_inf, counts.positive_inf);
  EXPECT_EQ(got.negative_inf, counts.negative_inf);
  EXPECT_EQ(got.negative_zeros, counts.negative_zeros);
}

template <class T>
void ExpectAsDefined(const DType& dtype, const std::vector<T>& units) {
  SCOPED_TRACE(dtype.view());
  const auto bytes = std::as_bytes(std::span(units));
  const ValueDecoder decoder(dtype);
  std::vector<double> values;
  for (size_t i = 0; i < units.size(); ++i) {
    for (uint32_t k = 0; k < decoder.elements_per_unit(); ++k)
      values.push_back(decoder.Decode(bytes.subspan(i * sizeof(T), sizeof(T)), k).real);
  }
  const Statistics got = StatisticsOf(dtype, bytes);
  EXPECT_EQ(got.kind, StatisticsKind::kReal);
  ExpectMoments(got, values);
  ExpectSpecials(got, values);
  ExpectSame(got.mean, FinishStatistics(got.kind, got.count, {}, Defined(values)).mean);
}

// Moments of the values as doubles, and the sums that no double could hold.
template <class T>
void ExpectExact(const DType& dtype, const std::vector<T>& values) {
  SCOPED_TRACE(dtype.view());
  const Statistics got = Of(dtype, values);
  EXPECT_EQ(got.kind, StatisticsKind::kInteger);
  ExpectMoments(got, std::vector<double>(values.begin(), values.end()));
  ExpectSpecials(got, {});
  __int128 sum = 0;
  for (const T value : values) sum += value;
  EXPECT_TRUE(got.exact_sum == sum);
  EXPECT_TRUE(got.exact_min == __int128{*std::ranges::min_element(values)});
  EXPECT_TRUE(got.exact_max == __int128{*std::ranges::max_element(values)});
}

// `parts`: of `units`, real, imaginary, real, ...
template <class T>
void ExpectMagnitudes(const DType& dtype, const std::vector<T>& units,
                      const std::vector<double>& parts) {
  SCOPED_TRACE(dtype.view());
  std::vector<double> magnitudes;
  for (size_t i = 0; i < parts.size(); i += 2) {
    const double real = parts[i], imaginary = parts[i + 1];
    const bool finite = std::isfinite(real) && std::isfinite(imaginary);
    magnitudes.push_back(finite ? Magnitude(real, imaginary)
                                : std::numeric_limits<double>::quiet_NaN());
  }
  const Statistics got = Of(dtype, units);
  EXPECT_EQ(got.kind, StatisticsKind::kComplex);
  ExpectMoments(got, magnitudes);
  ExpectSpecials(got, parts);
  ExpectSame(got.mean, FinishStatistics(got.kind, got.count, {}, Defined(magnitudes)).mean);
}

template <class T>
void ExpectMagnitudes(const DType& dtype, const std::vector<T>& parts) {
  ExpectMagnitudes(dtype, parts, std::vector<double>(parts.begin(), parts.end()));
}

#if defined(__SSE2__)
constexpr unsigned kFlushToZero = 0x8040;  // and subnormal operands as zeros
void FlushSubnormals(bool on) {
  _mm_setcsr(on ? _mm_getcsr() | kFlushToZero : _mm_getcsr() & ~kFlushToZero);
}
#else
void FlushSubnormals(bool) {}
#endif

// Every kind of vector that this processor has, one after the other.
class StatisticsTargets : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override {
    hwy::SetSupportedTargetsForTest(GetParam());
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    ASSERT_EQ(TileTarget(), GetParam());
  }
  void TearDown() override {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};
INSTANTIATE_TEST_SUITE_P(All, StatisticsTargets,
                         testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& info) { return std::string(hwy::TargetName(info.param)); });

TEST_P(StatisticsTargets, FinitePatternsAreAsDefined) {
  ExpectAsDefined(kFloat32, Normal(3 * kTileElements + 77));
  ExpectAsDefined(kFloat32, Normal(2 * kTileElements, 1000));  // the mean dominates
  std::vector<float> relu = Normal(kTileElements + 5);
  for (size_t i = 0; i < relu.size(); ++i) relu[i] = relu[i] > 0 ? relu[i] : i % 3 ? 0.0f : -0.0f;
  ExpectAsDefined(kFloat32, relu);
  std::vector<double> wide;
  for (float value : Normal(2 * kTileElements + 1))
    wide.push_back(std::ldexp(value, static_cast<int>(wide.size() % 1900) - 950));
  ExpectAsDefined(kFloat64, wide);
}

// Every exponent, NaN and infinity.
TEST_P(StatisticsTargets, RandomBitsAreAsDefined) {
  const auto words = RandomBits<uint32_t>(2 * kTileElements + 33, 1);
  ExpectAsDefined(kFloat32, words);
  ExpectAsDefined(kFloat64, RandomBits<uint64_t>(kTileElements + 31, 2));
  std::vector<uint16_t> every(65536);
  for (size_t i = 0; i < every.size(); ++i) every[i] = static_cast<uint16_t>(i * 40503);
  ExpectAsDefined(kHalf, every);
  ExpectAsDefined(kBFloat16, every);
}

// All bytes there are, in an order that repeats nothing within a vector.
TEST_P(StatisticsTargets, SmallFloatsAreAsDefined) {
  std::vector<uint8_t> bytes(2 * kTileElements + 9);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 147 + i / 256);
  for (const char* name :
       {"float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"})
    ExpectAsDefined(MakeDType(name, 8), bytes);
  ExpectAsDefined(MakeDType("float4_e2m1fn_x2", 4, 2), bytes);
}

template <class T>
void ExpectRandomIntegers(const char* name) {
  const DType dtype = MakeDType(name, 8 * sizeof(T));
  ExpectExact(dtype, RandomBits<T>(2 * kTileElements + 21, sizeof(T)));
  std::vector<T> small(kTileElements + 3);  // many zeros
  for (size_t i = 0; i < small.size(); ++i) small[i] = static_cast<T>(i % 3);
  ExpectExact(dtype, small);
  using Limits = std::numeric_limits<T>;
  ExpectExact(dtype, std::vector<T>(kTileElements + 1, Limits::max()));
  ExpectExact(dtype, std::vector<T>{Limits::lowest(), Limits::max(), 0, 1});
}

TEST_P(StatisticsTargets, IntegersAreExact) {
  ExpectRandomIntegers<int8_t>("int8");
  ExpectRandomIntegers<uint8_t>("uint8");
  ExpectRandomIntegers<int16_t>("int16");
  ExpectRandomIntegers<uint16_t>("uint16");
  ExpectRandomIntegers<int32_t>("int32");
  ExpectRandomIntegers<uint32_t>("uint32");
  ExpectRandomIntegers<int64_t>("int64");
  ExpectRandomIntegers<uint64_t>("uint64");
  std::vector<uint8_t> flags(kTileElements + 77);
  for (size_t i = 0; i < flags.size(); ++i) flags[i] = i % 5 < 2;
  ExpectExact(MakeDType("bool", 8), flags);
}

TEST_P(StatisticsTargets, ComplexIsOfMagnitudes) {
  std::vector<float> parts;
  for (const uint32_t bits : RandomBits<uint32_t>(4 * kTileElements + 50, 5))
    parts.push_back(std::bit_cast<float>(bits));  // every exponent, NaN and infinity
  ExpectMagnitudes(MakeDType("complex64", 64), parts);
  std::vector<double> wide;
  for (const uint64_t bits : RandomBits<uint64_t>(2 * kTileElements + 6, 6))
    wide.push_back(std::bit_cast<double>(bits));
  ExpectMagnitudes(MakeDType("complex128", 128), wide);
  ExpectMagnitudes(MakeDType("complex64", 64), Normal(2 * kTileElements + 8));
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  ExpectMagnitudes(MakeDType("complex64", 64),
                   std::vector<float>{0, -0.0f, 3, -4, -0.0f, -0.0f, kNan, kInf, -kInf, -0.0f});
}

// Real and imaginary parts of 16 bits: each of all there are, beside another one.
TEST_P(StatisticsTargets, HalvesOfComplexNumbersAreDecoded) {
  std::vector<uint16_t> units;
  for (uint32_t i = 0; i < 65536; ++i) {
    units.push_back(static_cast<uint16_t>(i));
    units.push_back(static_cast<uint16_t>(i * 40503 + 7));
  }
  for (const auto& [name, part] : {std::pair{"complex32", kHalf}, {"bcomplex32", kBFloat16}}) {
    const ValueDecoder decoder(part);
    std::vector<double> parts;
    for (const uint16_t unit : units)
      parts.push_back(decoder.Decode(std::as_bytes(std::span(&unit, 1)), 0).real);
    ExpectMagnitudes(MakeDType(name, 32), units, parts);
  }
}

TEST_P(StatisticsTargets, AnyNumberOfElements) {
  for (size_t n : {0, 1, 2, 15, 16, 17, 31, 32, 33, 4095, 4097}) {
    SCOPED_TRACE(n);
    ExpectAsDefined(kFloat32, Normal(n));
    ExpectAsDefined(kBFloat16, RandomBits<uint16_t>(n, n));
  }
}

TEST_P(StatisticsTargets, BesideAFlushToZeroJob) {
  std::vector<uint32_t> subnormal(100, 3);  // 3 * 2^-149
  FlushSubnormals(true);
  const Statistics s = Of(kFloat32, subnormal);
  FlushSubnormals(false);
  EXPECT_EQ(s.max, 3 * 0x1p-149);
  EXPECT_EQ(s.l1, 300 * 0x1p-149);
  EXPECT_EQ(s.zeros, 0u);
}

// None that this processor has is left out, and the code without vectors is among them.
TEST(Statistics, EveryKindOfVectorIsTested) {
  int64_t tested = 0;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) tested |= target;
  EXPECT_EQ(tested, HWY_ATTAINABLE_TARGETS & hwy::SupportedTargets());
  EXPECT_NE(tested & (HWY_SCALAR | HWY_EMU128), 0);
}

TEST(Statistics, TheCutHasNoEffect) {
  const auto values = RandomBits<uint32_t>(5 * kTileElements + 3, 3);
  const auto bytes = std::as_bytes(std::span(values));
  const Statistics whole = StatisticsOf(kFloat32, bytes);
  for (size_t piece : {1, 7, 4096, 16383, 16384, 16385, 70000}) {
    StatisticsAccumulator accumulator(kFloat32);
    for (size_t at = 0; at < bytes.size(); at += piece)
      accumulator.Update(bytes.subspan(at, std::min(piece, bytes.size() - at)));
    EXPECT_TRUE(accumulator.Finish() == whole) << piece;
  }
}

TEST(Statistics, TheRoundingModeOfTheThreadHasNoEffect) {
  const auto values = Normal(10000, 0.3f);
  const Statistics want = Of(kFloat32, values);
  std::fesetround(FE_UPWARD);
  const Statistics got = Of(kFloat32, values);
  EXPECT_EQ(std::fegetround(), FE_UPWARD);
  std::fesetround(FE_TONEAREST);
  EXPECT_TRUE(got == want);
}

// pytorch/pytorch#18277
TEST(Statistics, MeansOfLargeConstants) {
  EXPECT_EQ(Of(kFloat32, std::vector<float>(1'000'000, 9991.0f)).mean, 9991);
  const Statistics tenth = Of(kFloat32, std::vector<float>(1'392'640, 0.1f));
  EXPECT_EQ(tenth.mean, static_cast<double>(0.1f));
  EXPECT_EQ(tenth.std, 0);
}

// 2^27 halves, as the writer gets a tensor of that size: a piece at a time.
TEST(Statistics, TheMeanOfHalfAGibibyte) {
  const std::vector<float> piece(1 << 20, 0.5f);
  StatisticsAccumulator accumulator(kFloat32);
  for (int i = 0; i < 128; ++i) accumulator.Update(std::as_bytes(std::span(piece)));
  const Statistics s = accumulator.Finish();
  EXPECT_EQ(s.count, uint64_t{1} << 27);
  EXPECT_EQ(s.mean, 0.5);
  EXPECT_EQ(s.std, 0);
  EXPECT_EQ(s.l1, 0x1p26);
  EXPECT_EQ(s.l2, std::sqrt(0x1p25));
}

// google/CommonLoopUtils#380
TEST(Statistics, OnesInBFloat16) {
  const Statistics s = Of(kBFloat16, std::vector<uint16_t>(768, ToBFloat16(1)));
  EXPECT_EQ(s.mean, 1);
  EXPECT_EQ(s.std, 0);
  EXPECT_EQ(s.l2, std::sqrt(768.0));
}

// tensorflow/tensorflow#56890
TEST(Statistics, HalfSumsDoNotOverflow) {
  // 60000 = 1.8310546875 * 2^15: exponent 30, mantissa 851.
  const Statistics s = Of(kHalf, std::vector<uint16_t>(232 * 304, 30 << 10 | 851));
  EXPECT_EQ(s.mean, 60000);
  EXPECT_EQ(s.max, 60000);
  EXPECT_EQ(s.nan + s.positive_inf + s.negative_inf, 0u);
}

// pytorch/pytorch#6996
TEST(Statistics, NanAndInfinityAreBesideTheRange) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const auto& values : {std::vector<float>{1, kNan, 3}, std::vector<float>{kNan, 1, 3}}) {
    const Statistics s = Of(kFloat32, values);
    EXPECT_EQ(s.nan, 1u);
    EXPECT_EQ(s.min, 1);
    EXPECT_EQ(s.max, 3);
    EXPECT_EQ(s.mean, 2);
  }
  const Statistics none = Of(kFloat32, std::vector<float>{kNan, kNan});
  EXPECT_EQ(none.nan, 2u);
  EXPECT_FALSE(none.has_range());
  const Statistics special = Of(kFloat32, std::vector<float>{kInf, -kInf, kNan});
  EXPECT_EQ(special.positive_inf, 1u);
  EXPECT_EQ(special.negative_inf, 1u);
  EXPECT_EQ(special.nan, 1u);
  EXPECT_FALSE(special.has_range());
}

// finegrain-ai/refiners#200
TEST(Statistics, NothingAndOneElement) {
  for (const DType& dtype : {kFloat32, MakeDType("int64", 64), MakeDType("complex64", 64)}) {
    const Statistics s = StatisticsOf(dtype, {});
    EXPECT_EQ(s.count, 0u);
    EXPECT_FALSE(s.has_range());
    EXPECT_FALSE(s.has_std());
  }
  const Statistics one = Of(kFloat32, std::vector<float>{-2});
  EXPECT_TRUE(one.has_range());
  EXPECT_FALSE(one.has_std());
  EXPECT_EQ(one.min, -2);
  EXPECT_EQ(one.l2, 2);
}

// pytorch/pytorch#149008: 1, -2, 448, NaN
TEST(Statistics, Float8HasARange) {
  const Statistics s =
      Of(MakeDType("float8_e4m3fn", 8), std::vector<uint8_t>{0x38, 0xC0, 0x7E, 0x7F});
  EXPECT_EQ(s.min, -2);
  EXPECT_EQ(s.max, 448);
  EXPECT_EQ(s.nan, 1u);
  EXPECT_EQ(s.mean, 149);
}

// triton-lang/triton#10745
TEST(Statistics, FnuzHasOneNanAndNoNegativeZero) {
  for (const char* name : {"float8_e4m3fnuz", "float8_e5m2fnuz"}) {
    const Statistics s = Of(MakeDType(name, 8), std::vector<uint8_t>{0x80, 0x00, 0x01});
    EXPECT_EQ(s.nan, 1u);
    EXPECT_EQ(s.positive_inf + s.negative_inf, 0u);
    EXPECT_EQ(s.zeros, 1u);
    EXPECT_EQ(s.negative_zeros, 0u);
  }
}

TEST(Statistics, PackedFloats) {
  // Low half first: 1.5 (0b0011) and -6 (0b1111), 0 and 0.5.
  const Statistics s = Of(MakeDType("float4_e2m1fn_x2", 4, 2), std::vector<uint8_t>{0xF3, 0x10});
  EXPECT_EQ(s.count, 4u);
  EXPECT_EQ(s.min, -6);
  EXPECT_EQ(s.max, 1.5);
  EXPECT_EQ(s.mean, -1);
  EXPECT_EQ(s.zeros, 1u);
}

TEST(Statistics, IntegersAreExact) {
  const Statistics u =
      Of(MakeDType("uint64", 64), std::vector<uint64_t>{~uint64_t{0}, ~uint64_t{0}, 0});
  EXPECT_TRUE(u.exact_max == __int128{~uint64_t{0}});
  EXPECT_TRUE(u.exact_sum == __int128{~uint64_t{0}} * 2);
  EXPECT_EQ(u.zeros, 1u);
  const int64_t lowest = std::numeric_limits<int64_t>::min();
  const Statistics i = Of(MakeDType("int64", 64), std::vector<int64_t>(5000, lowest));
  EXPECT_TRUE(i.exact_sum == __int128{lowest} * 5000);
  EXPECT_TRUE(i.exact_min == lowest && i.exact_max == lowest);
  EXPECT_EQ(i.mean, static_cast<double>(lowest));
  EXPECT_EQ(i.std, 0);
  const Statistics beyond =
      Of(MakeDType("int64", 64), std::vector<int64_t>{(int64_t{1} << 53) + 1, 0});
  EXPECT_TRUE(beyond.exact_max == (int64_t{1} << 53) + 1);
  const Statistics small = Of(MakeDType("int8", 8), std::vector<int8_t>{-128, 127, -1});
  EXPECT_TRUE(small.exact_min == -128 && small.exact_sum == -2);
  EXPECT_EQ(small.l1, 256);
  const Statistics flags = Of(MakeDType("bool", 8), std::vector<uint8_t>{0, 1, 1, 0, 1});
  EXPECT_TRUE(flags.exact_sum == 3 && flags.exact_max == 1);
  EXPECT_EQ(flags.mean, 0.6);
  EXPECT_EQ(flags.zeros, 2u);
}

TEST(Statistics, ComplexIsOfMagnitudes) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const Statistics s = Of(MakeDType("complex64", 64), std::vector<float>{3, -4, 0, -0.0f, 1, kInf});
  EXPECT_EQ(s.kind, StatisticsKind::kComplex);
  EXPECT_EQ(s.count, 3u);
  EXPECT_EQ(s.finite, 2u);
  EXPECT_EQ(s.max, 5);
  EXPECT_EQ(s.min, 0);
  EXPECT_EQ(s.l2, 5);
  EXPECT_EQ(s.positive_inf, 1u);
  EXPECT_EQ(s.zeros, 1u);
  EXPECT_EQ(s.negative_zeros, 1u);
}

TEST(Statistics, BitsHaveNone) {
  const Statistics s = Of(MakeDType("bits16", 16), std::vector<uint16_t>{1, 2, 3});
  EXPECT_EQ(s.kind, StatisticsKind::kBits);
  EXPECT_EQ(s.count, 3u);
  EXPECT_FALSE(s.has_range());
}

}  // namespace
}  // namespace tdump::io
