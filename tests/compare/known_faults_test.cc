// Faults of other comparison tools (docs/faults.md, group D), each for its whole kind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "compare/bounds.h"
#include "compare/verdict.h"
#include "tests/compare/builders.h"

namespace tdump::compare {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Judged {
  Verdict verdict;
  Metrics metrics;
  bool fails() const { return verdict.Fails(false); }
};

Judged Judge(const Tensor& a, const Tensor& b) {
  Comparison comparison = JudgeMeta(a.record, b.record);
  if (comparison.verdict.shape == Answer::kSame) {
    const auto metrics =
        Measure(a.operand(), b.operand(),
                LocalBoundOf(
                    {.a = a.record.dtype, .b = b.record.dtype, .reduction = {}, .compute = nullptr})
                    .bound);
    EXPECT_TRUE(metrics.ok());
    JudgeMetrics(*metrics, &comparison);
  }
  return {comparison.verdict, comparison.metrics};
}

// A float format as an independent encoder sees it: `mantissa` explicit bits, values by powers
// of 2.
struct Format {
  const char* name;
  int bits, exponent, mantissa, bias;
  uint64_t nan;
};
constexpr Format kFormats[] = {{"float64", 64, 11, 52, 1023, 0x7FF8000000000000},
                               {"float32", 32, 8, 23, 127, 0x7FC00000},
                               {"bfloat16", 16, 8, 7, 127, 0x7FC0},
                               {"float16", 16, 5, 10, 15, 0x7E00},
                               {"float8_e4m3fn", 8, 4, 3, 7, 0x7F},
                               {"float8_e5m2", 8, 5, 2, 15, 0x7E},
                               {"float8_e4m3fnuz", 8, 4, 3, 8, 0x80},
                               {"float8_e5m2fnuz", 8, 5, 2, 16, 0x80}};

// (1 + fraction / 2^mantissa) * 2^exponent as the format's bits.
uint64_t Bits(const Format& format, int exponent, uint64_t fraction) {
  return (static_cast<uint64_t>(exponent + format.bias) << format.mantissa) + fraction;
}
Tensor Of(const Format& format, const std::vector<uint64_t>& bits) {
  std::vector<std::byte> payload;
  for (const uint64_t value : bits) {
    for (int i = 0; i < format.bits / 8; ++i)
      payload.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  return MakeTensorBytes(format.name, {static_cast<int64_t>(bits.size())}, std::move(payload));
}

TEST(KnownFaultsD01, NoShapeIsEverBroadcastOrFlattened) {
  using Sizes = std::vector<int64_t>;
  const std::pair<Sizes, Sizes> cases[] = {{{3}, {3, 1}},    {{3}, {1, 3}},    {{1}, {1000}},
                                           {{}, {1}},        {{2, 3}, {3, 2}}, {{6}, {2, 3}},
                                           {{0, 5}, {5, 0}}, {{0}, {}},        {{0}, {0, 1}},
                                           {{2, 1}, {2, 4}}, {{1, 1, 1}, {1}}};
  for (const auto& [x, y] : cases) {
    const auto ones = [](const Sizes& sizes) {
      int64_t count = 1;
      for (const int64_t size : sizes) count *= size;
      return MakeTensor<float>("float32", sizes,
                               std::vector<float>(static_cast<size_t>(count), 1.0f));
    };
    for (const auto& [a, b] : {std::pair(ones(x), ones(y)), std::pair(ones(y), ones(x))}) {
      const Judged judged = Judge(a, b);
      EXPECT_EQ(judged.verdict.shape, Answer::kDiffers);
      EXPECT_TRUE(judged.fails());
      EXPECT_EQ(judged.verdict.tolerance, Answer::kNotJudged);
      EXPECT_EQ(judged.metrics.elements, 0u);
    }
  }
}

TEST(KnownFaultsD03, SharedZerosHideNoRelativeError) {
  const Judged one = Judge(Vector<float>("float32", {0, 1}), Vector<float>("float32", {0, 2}));
  EXPECT_EQ(one.metrics.max_abs, 1);
  EXPECT_EQ(one.metrics.max_rel, 0.5);
  EXPECT_EQ(one.metrics.mean_rel, 0.25);
  EXPECT_EQ(one.metrics.outside(), 1u);
  const Judged signs =
      Judge(Vector<float>("float32", {0, 4}), Vector<float>("float32", {-0.0f, 1}));
  EXPECT_EQ(signs.metrics.max_rel, 0.75);
  const Judged all = Judge(Vector<float>("float32", {0, 0}), Vector<float>("float32", {0, 0}));
  EXPECT_EQ(all.metrics.max_rel, 0);
  EXPECT_FALSE(all.fails());
  const Judged nothing =
      Judge(Vector<double>("float64", {0, 0}), Vector<double>("float64", {0, 1e-300}));
  EXPECT_EQ(nothing.metrics.max_rel, 1);
  EXPECT_TRUE(nothing.fails());
  const Judged complex = Judge(MakeTensor<float>("complex64", {2}, {0, 0, 3, 4}),
                               MakeTensor<float>("complex64", {2}, {0, 0, 0, 0}));
  EXPECT_EQ(complex.metrics.max_rel, 1);
  EXPECT_EQ(complex.metrics.max_abs, 5);
  const Judged integer = Judge(Vector<int32_t>("int32", {0, 4}), Vector<int32_t>("int32", {0, 3}));
  EXPECT_EQ(integer.metrics.max_rel, 0.25);
}

TEST(KnownFaultsD04, NaNOnOneSideFailsInEveryFormatAndPlace) {
  constexpr size_t kCount = 5000;  // more than a tile
  for (const Format& format : kFormats) {
    const uint64_t one = Bits(format, 0, 0);
    for (const size_t place : {size_t{0}, size_t{4095}, size_t{4096}, kCount - 1}) {
      std::vector<uint64_t> values(kCount, one), with_nan = values;
      with_nan[place] = format.nan;
      const Tensor plain = Of(format, values), nan = Of(format, with_nan);
      for (const bool swapped : {false, true}) {
        const Judged judged = swapped ? Judge(nan, plain) : Judge(plain, nan);
        EXPECT_TRUE(judged.fails()) << format.name << place;
        EXPECT_EQ(judged.verdict.special, Answer::kDiffers) << format.name;
        EXPECT_EQ(judged.verdict.tolerance, Answer::kDiffers) << format.name;
        EXPECT_EQ(judged.metrics.nan_mismatch, 1u) << format.name;
        EXPECT_EQ(judged.metrics.outside(), 1u) << format.name;
        EXPECT_THAT(judged.metrics.worst.position, testing::ElementsAre(place));
      }
      EXPECT_FALSE(Judge(nan, nan).fails()) << format.name;
    }
  }
}

TEST(KnownFaultsD04, NaNOfOnePartOfAComplexNumberFails) {
  const Tensor a = MakeTensor<float>("complex64", {1}, {1, 2});
  EXPECT_TRUE(Judge(a, MakeTensor<float>("complex64", {1}, {1, kNaN})).fails());
  EXPECT_TRUE(Judge(MakeTensor<float>("complex64", {1}, {kNaN, 2}), a).fails());
  EXPECT_TRUE(Judge(MakeTensor<float>("complex64", {1}, {kNaN, 2}),
                    MakeTensor<float>("complex64", {1}, {1, kNaN}))
                  .fails());
}

template <class T>
void ExpectDistance(const char* dtype, T low, T high, const char* text) {
  for (const bool swapped : {false, true}) {
    const Tensor a = Vector<T>(dtype, {swapped ? high : low}),
                 b = Vector<T>(dtype, {swapped ? low : high});
    const Judged judged = Judge(a, b);
    EXPECT_EQ(judged.metrics.max_abs_text, text) << dtype;
    EXPECT_TRUE(judged.fails()) << dtype;
  }
}

TEST(KnownFaultsD08, IntegersDoNotWrapAroundAtEitherEnd) {
  ExpectDistance<uint8_t>("uint8", 1, 254, "253");
  ExpectDistance<uint8_t>("bool", 0, 1, "1");
  ExpectDistance<int8_t>("int8", -128, 127, "255");
  ExpectDistance<uint16_t>("uint16", 0, 65535, "65535");
  ExpectDistance<int16_t>("int16", -32768, 32767, "65535");
  ExpectDistance<uint32_t>("uint32", 0, ~uint32_t{0}, "4294967295");
  ExpectDistance<int32_t>("int32", INT32_MIN, INT32_MAX, "4294967295");
  ExpectDistance<uint64_t>("uint64", 0, ~uint64_t{0}, "18446744073709551615");
  ExpectDistance<int64_t>("int64", INT64_MIN, INT64_MAX, "18446744073709551615");
}

TEST(KnownFaultsD09, ACosineIsNeverBeyondOne) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (const double size : {1e-18, 1.0, 1e18}) {
    for (int round = 0; round < 300; ++round) {
      std::vector<float> a(1 + round % 90), b;
      for (float& x : a) x = static_cast<float>(normal(random) * size);
      for (const float x : a) b.push_back(x * (1.0f + 3e-7f * static_cast<float>(round % 3)));
      const Tensor left = Vector<float>("float32", a), right = Vector<float>("float32", b);
      const auto cosine = Judge(left, right).metrics.cosine;
      ASSERT_TRUE(cosine);
      EXPECT_LE(*cosine, 1);
      EXPECT_GE(*cosine, 0.999);
      EXPECT_EQ(*Judge(left, left).metrics.cosine, 1);
    }
  }
  std::vector<float> ramp(84);
  for (size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<float>(i);
  EXPECT_EQ(*Judge(Vector<float>("float32", ramp), Vector<float>("float32", ramp)).metrics.cosine,
            1);
}

// Bits of every format: near-parallel, equal and opposite vectors, of real and complex numbers.
TEST(KnownFaultsD09, HoldsInEveryFormat) {
  std::mt19937 random(11);
  for (const Format& format : kFormats) {
    const uint64_t sign = uint64_t{1} << (format.bits - 1);
    for (int round = 0; round < 50; ++round) {
      std::vector<uint64_t> a, near, opposite;
      for (int i = 0; i < 1 + 7 * round; ++i) {
        a.push_back(Bits(format, static_cast<int>(random() % 8) - 4, random() % 4));
        near.push_back(a.back() ^ (random() % 2));  // the last bit
        opposite.push_back(a.back() ^ sign);
      }
      const Tensor left = Of(format, a);
      EXPECT_EQ(*Judge(left, left).metrics.cosine, 1) << format.name;
      EXPECT_EQ(*Judge(left, Of(format, opposite)).metrics.cosine, -1) << format.name;
      const double cosine = *Judge(left, Of(format, near)).metrics.cosine;
      EXPECT_LE(cosine, 1) << format.name;
      EXPECT_GT(cosine, 0.9) << format.name;
    }
  }
  for (int count = 1; count < 60; ++count) {
    std::vector<float> parts;
    for (int i = 0; i < 2 * count; ++i) parts.push_back(std::sqrt(static_cast<float>(i + 1)));
    const Tensor z = MakeTensor<float>("complex64", {count}, parts);
    EXPECT_EQ(*Judge(z, z).metrics.cosine, 1) << count;
  }
}

TEST(KnownFaultsD10, TheOtherMetricsDecideWhereTheCosineIsUndefined) {
  const Tensor zeros = Vector<float>("float32", {0, 0}), ones = Vector<float>("float32", {1, 1});
  EXPECT_FALSE(Judge(zeros, zeros).metrics.cosine);
  EXPECT_FALSE(Judge(zeros, zeros).fails());
  for (const auto& [a, b] : {std::pair(zeros, ones), std::pair(ones, zeros)}) {
    EXPECT_FALSE(Judge(a, b).metrics.cosine);
    EXPECT_TRUE(Judge(a, b).fails());
  }
  const Tensor empty = Vector<float>("float32", {}), nans = Vector<float>("float32", {kNaN, kNaN});
  EXPECT_FALSE(Judge(empty, empty).metrics.cosine);
  EXPECT_FALSE(Judge(nans, nans).metrics.cosine);
  EXPECT_FALSE(Judge(nans, nans).fails());
  const Tensor none = MakeTensor<float>("complex64", {1}, {0, 0});
  EXPECT_FALSE(Judge(none, none).metrics.cosine);
}

// Of every format below float64: an exact tie against its rounding passes, eight steps off fails,
// whatever the magnitude.
TEST(KnownFaultsD11, ToleranceFollowsTheDtypeAndTheMagnitude) {
  for (const Format& format : kFormats) {
    if (format.bits == 64) continue;
    for (const int exponent : {-4, 0, 4}) {
      const double step = std::ldexp(1.0, exponent - format.mantissa);
      // 1.0 and the value half a step above it, which rounds to it.
      const Tensor rounded = Of(format, {Bits(format, exponent, 0)});
      const Judged tie =
          Judge(Vector<double>("float64", {std::ldexp(1.0, exponent) + step / 2}), rounded);
      EXPECT_EQ(tie.verdict.tolerance, Answer::kSame) << format.name;
      EXPECT_EQ(tie.metrics.max_ulp, 0.5) << format.name;
      const Judged off =
          Judge(Vector<double>("float64", {std::ldexp(1.0, exponent) + 8 * step}), rounded);
      // Beyond the next power of 2 a step is twice as long.
      EXPECT_EQ(off.metrics.max_ulp,
                8 / std::exp2(std::floor(std::log2(1 + std::ldexp(8, -format.mantissa)))))
          << format.name;
      // Of float32 the two roundings of an operator take as much, of e5m2 a factor of 3.
      if (format.bits < 32 && format.mantissa >= 3) {
        EXPECT_EQ(off.verdict.tolerance, Answer::kDiffers) << format.name;
      }
    }
  }
}

TEST(KnownFaultsD11, TheReportedCase) {
  const Tensor bf16 = Vector<uint16_t>("bfloat16", {0x41C0});  // 24; a step is 0.125
  const Judged tie = Judge(Vector<float>("float32", {24.0625f}), bf16);
  EXPECT_EQ(tie.verdict.tolerance, Answer::kSame);
  EXPECT_EQ(tie.metrics.max_ulp, 0.5);
  const Judged off = Judge(Vector<float>("float32", {25.0f}), bf16);
  EXPECT_EQ(off.verdict.tolerance, Answer::kDiffers);
  EXPECT_EQ(off.metrics.max_ulp, 8);
  // The same error is nothing at 3000, and far too much at 1.
  EXPECT_EQ(Judge(Vector<float>("float32", {3009.0f}), Vector<uint16_t>("bfloat16", {0x453C}))
                .verdict.tolerance,
            Answer::kSame);
  EXPECT_EQ(Judge(Vector<float>("float32", {1.0625f}), Vector<uint16_t>("bfloat16", {0x3F80}))
                .verdict.tolerance,
            Answer::kDiffers);
}

TEST(KnownFaultsD13, ATinyElementOfANormalTensorMayCancel) {
  const Judged judged = Judge(Vector<float>("float32", {1000, 1e-6f}),
                              Vector<uint16_t>("bfloat16", {0x447A, 0x37A8}));  // 1000, 2.0027e-5
  EXPECT_EQ(judged.verdict.tolerance, Answer::kSame);
  EXPECT_NEAR(judged.metrics.max_rel, 0.95, 0.001);
  EXPECT_THAT(judged.metrics.worst.position, testing::ElementsAre(1));
  EXPECT_THAT(judged.metrics.worst_relative->position, testing::ElementsAre(1));
  // Alone it is no rounding, nor is an error of the size of the tensor.
  EXPECT_TRUE(Judge(Vector<float>("float32", {1e-6f}), Vector<float>("float32", {2e-5f})).fails());
  EXPECT_EQ(
      Judge(Vector<float>("float32", {1000, 1e-6f}), Vector<uint16_t>("bfloat16", {0x447A, 0x42C8}))
          .verdict.tolerance,
      Answer::kDiffers);
}

}  // namespace
}  // namespace tdump::compare
