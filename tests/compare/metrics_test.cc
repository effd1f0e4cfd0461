// Values worked out by hand, and (reference_test.cc) by NumPy.
#include "compare/metrics.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "tests/compare/builders.h"

namespace tdump::compare {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr uint64_t kMax64 = std::numeric_limits<uint64_t>::max();

Metrics MeasureOk(const Tensor& a, const Tensor& b, const Bound& bound = {}) {
  Result<Metrics> metrics = Measure(a.operand(), b.operand(), bound);
  EXPECT_TRUE(metrics.ok()) << metrics.status().ToString();
  return metrics.ok() ? *metrics : Metrics{};
}

TEST(Metrics, ZeroOverZeroIsNoRelativeError) {
  const Metrics m = MeasureOk(Vector<float>("float32", {0, 1}), Vector<float>("float32", {0, 2}));
  EXPECT_EQ(m.max_abs, 1);
  EXPECT_EQ(m.max_rel, 0.5);
  EXPECT_EQ(m.mean_abs, 0.5);
  EXPECT_EQ(m.outside(), 1u);
  EXPECT_EQ(m.elements, 2u);
  EXPECT_EQ(m.bits_equal, 1u);
  EXPECT_EQ(m.worst.position, std::vector<uint64_t>{1});
  EXPECT_EQ(m.worst.a, "1");
  EXPECT_EQ(m.worst.b, "2");
}

TEST(Metrics, NanOnOneSideIsNeverWithin) {
  const Bound wide{.relative = 100, .scale = 100};
  const Metrics one =
      MeasureOk(Vector<float>("float32", {1, 2}), Vector<float>("float32", {kNaN, 2}), wide);
  EXPECT_EQ(one.nan_mismatch, 1u);
  EXPECT_EQ(one.outside(), 1u);
  EXPECT_EQ(one.max_abs, 0);  // over what is finite on both sides
  EXPECT_EQ(one.compared, 1u);
  EXPECT_EQ(one.nan_a, 0u);
  EXPECT_EQ(one.nan_b, 1u);
  EXPECT_EQ(one.worst.position, std::vector<uint64_t>{0});
  EXPECT_EQ(one.worst.b, "nan");

  const Metrics other =
      MeasureOk(Vector<float>("float32", {kNaN}), Vector<float>("float32", {1}), wide);
  EXPECT_EQ(other.nan_mismatch, 1u);
  EXPECT_EQ(other.within, 0u);
}

TEST(Metrics, EqualSpecialValuesAreWithin) {
  const auto a = Vector<float>("float32", {kNaN, kInf, -kInf, 1});
  const Metrics m = MeasureOk(a, a);
  EXPECT_EQ(m.within, 4u);
  EXPECT_EQ(m.bits_equal, 4u);
  EXPECT_EQ(m.nan_a, 1u);
  EXPECT_EQ(m.inf_b, 2u);
  EXPECT_FALSE(m.has_worst);
  // NaNs of other bits: not bitwise equal, but the same special value.
  const auto other_nan =
      Vector<uint32_t>("float32", {0x7FC00001u, 0x7F800000u, 0xFF800000u, 0x3F800000u});
  const Metrics n = MeasureOk(a, other_nan);
  EXPECT_EQ(n.within, 4u);
  EXPECT_EQ(n.bits_equal, 3u);
  EXPECT_EQ(n.nan_mismatch, 0u);
}

TEST(Metrics, InfinityOfTheOtherSignAndAgainstFinite) {
  const Metrics m = MeasureOk(Vector<float>("float32", {kInf, kInf, 3.4e38f}),
                              Vector<float>("float32", {-kInf, 3.4e38f, kInf}),
                              {.relative = 1e30, .scale = 1e30});
  EXPECT_EQ(m.inf_mismatch, 3u);
  EXPECT_EQ(m.within, 0u);
  EXPECT_EQ(m.nan_mismatch, 0u);
}

TEST(Metrics, SignOfZero) {
  const Metrics m =
      MeasureOk(Vector<float>("float32", {0.0f, -1}), Vector<float>("float32", {-0.0f, 1}));
  EXPECT_EQ(m.zero_sign_mismatch, 1u);
  EXPECT_EQ(m.sign_mismatch, 2u);
  EXPECT_EQ(m.bits_equal, 0u);
  EXPECT_EQ(m.within, 1u);
  EXPECT_EQ(m.max_abs, 2);
  EXPECT_EQ(m.max_rel, 2);
}

TEST(Metrics, UnsignedIntegersDoNotWrapAround) {
  const Metrics bytes = MeasureOk(Vector<uint8_t>("uint8", {1}), Vector<uint8_t>("uint8", {254}));
  EXPECT_EQ(bytes.max_abs_text, "253");
  EXPECT_EQ(bytes.max_abs, 253);
  const Metrics bools = MeasureOk(Vector<uint8_t>("bool", {0}), Vector<uint8_t>("bool", {1}));
  EXPECT_EQ(bools.max_abs_text, "1");
  EXPECT_EQ(bools.worst.a, "false");
  const Metrics wide =
      MeasureOk(Vector<uint64_t>("uint64", {0}), Vector<uint64_t>("uint64", {kMax64}));
  EXPECT_EQ(wide.max_abs_text, "18446744073709551615");
  EXPECT_EQ(wide.worst.b, "18446744073709551615");
}

TEST(Metrics, IntegersAreExactBeyondDoubles) {
  const int64_t big = (int64_t{1} << 53);
  const Metrics m =
      MeasureOk(Vector<int64_t>("int64", {big, std::numeric_limits<int64_t>::min()}),
                Vector<int64_t>("int64", {big + 1, std::numeric_limits<int64_t>::max()}));
  EXPECT_EQ(m.max_abs_text, "18446744073709551615");  // 2^64 - 1
  EXPECT_EQ(m.within, 0u);
  const Metrics near =
      MeasureOk(Vector<int64_t>("int64", {big}), Vector<int64_t>("int64", {big + 1}));
  EXPECT_EQ(near.max_abs_text, "1");
  EXPECT_EQ(near.outside(), 1u);
}

TEST(Metrics, IntegersOfUnequalTypes) {
  const Metrics m =
      MeasureOk(Vector<int64_t>("int64", {-1, 7}), Vector<uint64_t>("uint64", {kMax64, 7}));
  EXPECT_EQ(m.max_abs_text, "18446744073709551616");  // 2^64
  EXPECT_EQ(m.within, 1u);
  EXPECT_EQ(m.bits_equal, 0u);  // another dtype has no bits to share
}

TEST(Metrics, A64BitIntegerAgainstAFloatIsExact) {
  // float64 holds 2^53 and 2^63 exactly; the integers are 1 away.
  const Metrics m = MeasureOk(Vector<int64_t>("int64", {(int64_t{1} << 53) + 1}),
                              Vector<double>("float64", {0x1p53}));
  EXPECT_EQ(m.max_abs, 1);
  const Metrics n =
      MeasureOk(Vector<uint64_t>("uint64", {kMax64}), Vector<double>("float64", {0x1p64}));
  EXPECT_EQ(n.max_abs, 1);
}

TEST(Metrics, SubByteIntegers) {
  // int4: 0xF is -1, 0x8 is -8, 0x7 is 7; the upper half of the byte is no part of the number.
  const Metrics m =
      MeasureOk(Vector<uint8_t>("int4", {0x0F, 0x08}), Vector<uint8_t>("int4", {0x07, 0x08}));
  EXPECT_EQ(m.max_abs_text, "8");
  const Metrics u = MeasureOk(Vector<uint8_t>("uint2", {3}), Vector<uint8_t>("uint2", {0}));
  EXPECT_EQ(u.max_abs_text, "3");
}

// 24.0625 lies halfway between two bfloat16 neighbours, 24 and 24.125.
TEST(Metrics, Bfloat16AgainstFloat32) {
  const Metrics m =
      MeasureOk(Vector<float>("float32", {24.0625f}), Vector<uint16_t>("bfloat16", {0x41C0}));
  EXPECT_EQ(m.max_abs, 0.0625);
  EXPECT_EQ(m.worst.b, "24");
}

TEST(Metrics, Float16ExtremesAndSubnormals) {
  // 0x7BFF 65504, 0x0001 2^-24, 0xFC00 -inf, 0x7E00 nan
  const auto half = Vector<uint16_t>("float16", {0x7BFF, 0x0001, 0xFC00, 0x7E00});
  const auto wide =
      Vector<double>("float64", {65504.0, 0x1p-24, -std::numeric_limits<double>::infinity(), NAN});
  const Metrics m = MeasureOk(half, wide);
  EXPECT_EQ(m.within, 4u);
  EXPECT_EQ(m.max_abs, 0);
}

TEST(Metrics, Float8Formats) {
  const auto check = [](const char* dtype, std::vector<uint8_t> bits, std::vector<double> values) {
    const Metrics m = MeasureOk(Vector<uint8_t>(dtype, bits), Vector<double>("float64", values));
    EXPECT_EQ(m.within, bits.size()) << dtype;
    EXPECT_EQ(m.max_abs, 0) << dtype;
    return m;
  };
  check("float8_e4m3fn", {0x7E, 0x01, 0xFF, 0x80, 0x38}, {448, 0x1p-9, NAN, -0.0, 1});
  check("float8_e5m2", {0x7B, 0x01, 0xFC, 0x7D, 0x3C}, {57344, 0x1p-16, -INFINITY, NAN, 1});
  const Metrics fnuz = check("float8_e4m3fnuz", {0x80, 0x00, 0x01, 0x7F}, {NAN, 0, 0x1p-10, 240});
  EXPECT_EQ(fnuz.nan_a, 1u);
  EXPECT_EQ(fnuz.inf_a, 0u);
  EXPECT_EQ(fnuz.zero_sign_mismatch, 0u);
  check("float8_e5m2fnuz", {0x80, 0x7F, 0x01}, {NAN, 57344, 0x1p-17});
  check("float8_e8m0fnu", {0x7F, 0x00, 0xFE, 0xFF}, {1, 0x1p-127, 0x1p127, NAN});
}

TEST(Metrics, PackedFloat4IsTwoElementsAByte) {
  // Codes 0..7: 0 0.5 1 1.5 2 3 4 6, bit 3 the sign; low half first. 0x72: 1, 6. 0x9F: -6, -0.5.
  const auto a = MakeTensor<uint8_t>("float4_e2m1fn_x2", {2}, {0x72, 0x9F});
  const auto b = MakeTensor<float>("float32", {4}, {1, 6, -6, -0.5f});
  EXPECT_EQ(ElementShape(a.record), std::vector<uint64_t>{4});
  const Metrics m = MeasureOk(a, b);
  EXPECT_EQ(m.elements, 4u);
  EXPECT_EQ(m.within, 4u);
  // -0.5 -> 0
  const Metrics n = MeasureOk(a, MakeTensor<uint8_t>("float4_e2m1fn_x2", {2}, {0x72, 0x0F}));
  EXPECT_EQ(n.bits_equal, 3u);
  EXPECT_EQ(n.worst.position, std::vector<uint64_t>{3});
  EXPECT_EQ(n.max_abs, 0.5);
}

TEST(Metrics, ComplexIsMeasuredByModulus) {
  const auto a = MakeTensor<float>("complex64", {2}, {0, 0, 3, 4});
  const auto b = MakeTensor<float>("complex64", {2}, {3, 4, 3, 4});
  const Metrics m = MeasureOk(a, b);
  EXPECT_EQ(m.elements, 2u);
  EXPECT_EQ(m.max_abs, 5);
  EXPECT_EQ(m.max_rel, 1);
  EXPECT_EQ(m.bits_equal, 1u);
  EXPECT_EQ(m.worst.b, "3+4j");
  // A NaN part matches a NaN part only.
  const Metrics n = MeasureOk(MakeTensor<float>("complex64", {1}, {kNaN, 1}),
                              MakeTensor<float>("complex64", {1}, {1, kNaN}));
  EXPECT_EQ(n.within, 0u);
  const Metrics real = MeasureOk(a, Vector<float>("float32", {0, 3}));
  EXPECT_EQ(real.max_abs, 4);
}

TEST(Metrics, AnUnknownDtypeIsComparedByBits) {
  const Metrics m =
      MeasureOk(Vector<uint16_t>("bits16", {1, 2}), Vector<uint16_t>("bits16", {1, 3}));
  EXPECT_FALSE(m.numeric);
  EXPECT_EQ(m.bits_equal, 1u);
  EXPECT_EQ(m.outside(), 1u);
  EXPECT_EQ(m.worst.a, "0x0002");
}

TEST(Metrics, EmptyAndScalar) {
  const Metrics empty =
      MeasureOk(MakeTensor<float>("float32", {0, 5}, {}), MakeTensor<float>("float32", {0, 5}, {}));
  EXPECT_EQ(empty.elements, 0u);
  EXPECT_EQ(empty.outside(), 0u);
  EXPECT_EQ(empty.max_abs, 0);
  EXPECT_EQ(empty.mean_abs, 0);
  EXPECT_FALSE(empty.has_worst);
  const Metrics scalar =
      MeasureOk(MakeTensor<float>("float32", {}, {2}), MakeTensor<float>("float32", {}, {5}));
  EXPECT_EQ(scalar.elements, 1u);
  EXPECT_EQ(scalar.max_abs, 3);
  EXPECT_TRUE(scalar.worst.position.empty());
}

TEST(Metrics, BoundIsRelativeToTheElementAndToTheRms) {
  // rms of {3, 4} is sqrt(12.5) = 3.5355; of {3, 4.5} sqrt(14.625) = 3.8243. |4 - 4.5| = 0.5.
  const auto a = Vector<float>("float32", {3, 4}), b = Vector<float>("float32", {3, 4.5f});
  EXPECT_EQ(MeasureOk(a, b, {.relative = 0.112}).outside(), 0u);  // 0.112 * 4.5 = 0.504
  EXPECT_EQ(MeasureOk(a, b, {.relative = 0.110}).outside(), 1u);  // 0.495
  EXPECT_EQ(MeasureOk(a, b, {.scale = 0.142}).outside(), 0u);     // 0.142 * 3.5355 = 0.50204
  EXPECT_EQ(MeasureOk(a, b, {.scale = 0.141}).outside(), 1u);     // 0.49851
  EXPECT_NEAR(MeasureOk(a, b).rms_a, std::sqrt(12.5), 1e-15);
}

TEST(Metrics, AHugeElementGivesNoInfiniteAllowance) {
  const auto a = Vector<double>("float64", {1e300, 1}), b = Vector<double>("float64", {1e300, 2});
  EXPECT_EQ(MeasureOk(a, b, {.relative = 1e-3, .scale = 1e-3}).outside(), 1u);
}

TEST(Metrics, ManyTilesAndTheWorstAcrossThem) {
  std::vector<float> x(3 * 4096 + 17), y;
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  y = x;
  y[5000] += 2;
  y[12000] -= 8;
  const auto a = MakeTensor<float>("float32", {5, 2461}, x),
             b = MakeTensor<float>("float32", {5, 2461}, y);
  const Metrics m = MeasureOk(a, b);
  EXPECT_EQ(m.elements, 12305u);
  EXPECT_EQ(m.bits_equal, 12303u);
  EXPECT_EQ(m.outside(), 2u);
  EXPECT_EQ(m.max_abs, 8);
  EXPECT_EQ(m.worst.position, (std::vector<uint64_t>{4, 12000 - 4 * 2461}));
  EXPECT_DOUBLE_EQ(m.mean_abs, 10.0 / 12305);
}

TEST(Metrics, ExpandedAgainstContiguous) {  // stride-0 dimensions are stored once
  Tensor expanded = MakeTensor<float>("float32", {2, 3, 2}, {1, 2, 3, 4});
  expanded.record.strides = {2, 0, 1};  // [[1, 2] x 3, [3, 4] x 3]
  const auto plain = MakeTensor<float>("float32", {2, 3, 2}, {1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 9});
  const Metrics m = MeasureOk(expanded, plain);
  EXPECT_EQ(m.elements, 12u);
  EXPECT_EQ(m.bits_equal, 11u);
  EXPECT_EQ(m.max_abs, 5);
  EXPECT_EQ(m.worst.position, (std::vector<uint64_t>{1, 2, 1}));
  Tensor inner = MakeTensor<float>("float32", {2, 3}, {1, 2});
  inner.record.strides = {1, 0};
  EXPECT_EQ(MeasureOk(inner, MakeTensor<float>("float32", {2, 3}, {1, 1, 1, 2, 2, 2})).within, 6u);
}

TEST(Metrics, ExpandedOnBothSidesIsWalkedOnceAndCountedInFull) {
  Tensor a = MakeTensor<float>("float32", {int64_t{1} << 40, 2}, {1, 2}),
         b = MakeTensor<float>("float32", {int64_t{1} << 40, 2}, {1, 3});
  a.record.strides = b.record.strides = {0, 1};
  const Metrics m = MeasureOk(a, b);
  EXPECT_EQ(m.elements, uint64_t{1} << 41);
  EXPECT_EQ(m.outside(), uint64_t{1} << 40);
  EXPECT_EQ(m.worst.position, (std::vector<uint64_t>{0, 1}));
}

TEST(Metrics, APayloadThatIsTooShortIsAnError) {
  Tensor a = Vector<float>("float32", {1, 2}), b = a;
  b.payload.resize(4);
  const Result<Metrics> m = Measure(a.operand(), b.operand(), {});
  ASSERT_FALSE(m.ok());
  EXPECT_EQ(m.status().code(), StatusCode::kCorrupt);
}

TEST(Metrics, IdenticalVectorsHaveACosineOfExactlyOne) {
  std::vector<float> numbers;
  for (int i = 0; i < 84; ++i) numbers.push_back(static_cast<float>(i));
  const auto a = Vector<float>("float32", numbers);
  EXPECT_EQ(MeasureOk(a, a).cosine, 1.0);
  EXPECT_EQ(MeasureOk(a, a).sqnr_db, std::numeric_limits<double>::infinity());
  numbers[3] = std::nextafter(3.0f, 4.0f);
  const Metrics near = MeasureOk(a, Vector<float>("float32", numbers));
  EXPECT_LE(near.cosine.value(), 1.0);
  EXPECT_GT(near.cosine.value(), 0.999999);
  EXPECT_EQ(near.max_ulp, 1);
  EXPECT_EQ(near.ulp[0], 83u);
  EXPECT_EQ(near.ulp[2], 1u);  // at least 1, below 2
}

TEST(Metrics, TheCosineOfAZeroVectorIsUndefined) {
  const auto zeros = Vector<float>("float32", {0, 0, 0}),
             ones = Vector<float>("float32", {1, 1, 1});
  EXPECT_FALSE(MeasureOk(zeros, zeros).cosine.has_value());
  EXPECT_EQ(MeasureOk(zeros, zeros).within, 3u);
  EXPECT_FALSE(MeasureOk(zeros, zeros).sqnr_db.has_value());
  EXPECT_FALSE(MeasureOk(zeros, ones).cosine.has_value());
  EXPECT_EQ(MeasureOk(zeros, ones).within, 0u);
}

TEST(Metrics, TheCosineOfOppositeVectorsIsMinusOne) {
  EXPECT_EQ(MeasureOk(Vector<float>("float32", {3, -4}), Vector<float>("float32", {-3, 4})).cosine,
            -1.0);
}

TEST(Metrics, UlpAreThoseOfTheCoarserFormat) {
  const auto a = Vector<float>("float32", {4096, 1});
  const auto b = Vector<uint16_t>("bfloat16", {0x45C8, 0x3F80});  // 6400, 1
  const Metrics m = MeasureOk(a, b);
  EXPECT_EQ(m.max_abs, 2304);
  EXPECT_EQ(m.max_ulp, 72);     // numbers of 4096 to 8191 are 32 apart
  EXPECT_EQ(m.ulp[8], 1u);      // 64 to 127
  EXPECT_EQ(m.bits_equal, 0u);  // dtypes differ
}

TEST(Metrics, TheWorstChannelIsTheOneWithABias) {
  std::vector<float> a(4 * 100, 1), b = a;
  for (size_t row = 0; row < 4; ++row) {
    b[row * 100 + 7] += row % 2 == 0 ? 0.5f : -0.5f;  // no bias
    b[row * 100 + 42] -= 0.25f;
  }
  const Metrics m = MeasureOk(MakeTensor<float>("float32", {4, 100}, a),
                              MakeTensor<float>("float32", {4, 100}, b));
  ASSERT_TRUE(m.worst_channel.has_value());
  EXPECT_EQ(m.worst_channel->index, 42u);
  EXPECT_EQ(m.worst_channel->mean_error, -0.25);
  EXPECT_EQ(m.mean_error, -0.0025);
  EXPECT_FALSE(
      MeasureOk(MakeTensor<float>("float32", {400}, a), MakeTensor<float>("float32", {400}, b))
          .worst_channel.has_value());
}

TEST(Metrics, SqnrIsTheRatioOfPowers) {
  const Metrics m =
      MeasureOk(Vector<float>("float32", {10, 10}), Vector<float>("float32", {11, 9}));
  EXPECT_EQ(m.sqnr_db, 20);  // 100 to 1
  EXPECT_EQ(m.rmse, 1);
  EXPECT_EQ(m.mean_error, 0);
  EXPECT_EQ(m.mean_abs, 1);
}

TEST(Metrics, QuantilesOfManyErrors) {
  std::vector<float> a(1000, 0), b;
  for (int i = 0; i < 1000; ++i) b.push_back(static_cast<float>(i));
  const Metrics m = MeasureOk(Vector<float>("float32", a), Vector<float>("float32", b));
  EXPECT_NEAR(m.p50, 499, 499.0 / 64);
  EXPECT_NEAR(m.p90, 899, 899.0 / 64);
  EXPECT_NEAR(m.p99, 989, 989.0 / 64);
  EXPECT_EQ(MeasureOk(Vector<float>("float32", a), Vector<float>("float32", a)).p999, 0);
}

// Numbers over several chunks (of 2^18), some special, errors of many sizes.
struct Large {
  static constexpr int64_t kRows = 700, kColumns = 1000;
  std::vector<float> a, b;

  Large() {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < kRows * kColumns; ++i) {
      a.push_back(normal(random));
      const float noise = normal(random) * 1e-3f;
      b.push_back(i % 3 == 0 ? a.back() : a.back() + noise + (i % kColumns == 17 ? 1e-2f : 0));
    }
    a[5] = 0.0f, b[5] = -0.0f;
    a[300'000] = b[300'000] = kNaN;
    b[500'000] = kInf;
    // The largest error, twice: the first counts.
    a[2] = 1, b[2] = 3, a[600'000] = 1, b[600'000] = 3;
  }
  Tensor A() const { return MakeTensor("float32", {kRows, kColumns}, a); }
  Tensor B() const { return MakeTensor("float32", {kRows, kColumns}, b); }
};

TEST(Metrics, TheNumberOfThreadsChangesNoBit) {
  const Large large;
  const Tensor a = large.A(), b = large.B();
  const Bound bound{.relative = 1e-3, .scale = 1e-3};
  const auto measure = [&](unsigned threads) {
    Operand left = a.operand(), right = b.operand();
    left.open = [&] { return Result<ReadBytes>(FromMemory(a.payload)); };
    right.open = [&] { return Result<ReadBytes>(FromMemory(b.payload)); };
    Result<Metrics> metrics = Measure(left, right, bound, threads);
    EXPECT_TRUE(metrics.ok());
    return *metrics;
  };
  const Metrics one = measure(1);
  for (const unsigned threads : {2u, 3u, 16u}) {
    const Metrics m = measure(threads);
    for (double Metrics::*field :
         {&Metrics::max_abs, &Metrics::max_rel, &Metrics::mean_abs, &Metrics::mean_rel,
          &Metrics::mean_error, &Metrics::rmse, &Metrics::max_ulp, &Metrics::p50, &Metrics::p90,
          &Metrics::p99, &Metrics::p999, &Metrics::rms_a, &Metrics::rms_b, &Metrics::bound_abs})
      EXPECT_EQ(std::bit_cast<uint64_t>(m.*field), std::bit_cast<uint64_t>(one.*field));
    EXPECT_EQ(m.cosine, one.cosine);
    EXPECT_EQ(m.sqnr_db, one.sqnr_db);
    EXPECT_EQ(m.ulp, one.ulp);
    EXPECT_EQ(m.within, one.within);
    EXPECT_EQ(m.bits_equal, one.bits_equal);
    EXPECT_EQ(m.worst.position, one.worst.position);
    EXPECT_EQ(m.worst_channel->index, one.worst_channel->index);
    EXPECT_EQ(m.worst_channel->mean_error, one.worst_channel->mean_error);
  }
}

TEST(Metrics, ChunksAddUpToTheWhole) {
  Large large;
  large.b[500'000] = large.a[500'000];  // without the infinity the largest error is the worst
  const Metrics m = MeasureOk(large.A(), large.B(), {.relative = 1e-3, .scale = 1e-3});
  long double errors = 0, squares = 0, square_a = 0;
  uint64_t compared = 0, outside = 0, bits = 0;
  std::vector<long double> columns(Large::kColumns, 0);
  for (size_t i = 0; i < large.a.size(); ++i) {
    bits += std::bit_cast<uint32_t>(large.a[i]) == std::bit_cast<uint32_t>(large.b[i]);
    if (std::isnan(large.a[i])) continue;
    ++compared;
    const long double e = static_cast<long double>(large.b[i]) - large.a[i];
    errors += std::abs(e);
    squares += e * e;
    square_a += static_cast<long double>(large.a[i]) * large.a[i];
    columns[i % Large::kColumns] += e;
  }
  for (size_t i = 0; i < large.a.size(); ++i) {
    const double x = large.a[i], y = large.b[i];
    outside += std::abs(y - x) - 1e-3 * std::max(std::abs(x), std::abs(y)) > m.bound_abs;
  }
  const auto count = static_cast<long double>(compared);
  EXPECT_EQ(m.compared, compared);
  EXPECT_EQ(m.bits_equal, bits);
  EXPECT_EQ(m.outside(), outside);
  EXPECT_NEAR(m.mean_abs, static_cast<double>(errors / count), 1e-13 * m.mean_abs);
  EXPECT_NEAR(m.rmse, static_cast<double>(std::sqrt(squares / count)), 1e-13 * m.rmse);
  EXPECT_NEAR(m.rms_a, static_cast<double>(std::sqrt(square_a / count)), 1e-13 * m.rms_a);
  EXPECT_EQ(m.max_abs, 2);
  EXPECT_EQ(m.worst.position, (std::vector<uint64_t>{0, 2}));
  EXPECT_EQ(m.worst_channel->index, 17u);
  EXPECT_NEAR(m.worst_channel->mean_error, static_cast<double>(columns[17] / Large::kRows), 1e-12);
}

// A bfloat16 below 2^-126 has fewer digits: a unit in its last place is 2^-133.
TEST(Metrics, SubnormalNumbersHaveTheUnitOfTheSmallestNormalOne) {
  const Metrics m = MeasureOk(Vector<uint16_t>("bfloat16", {0x0001, 0x0040, 0x0000}),
                              Vector<uint16_t>("bfloat16", {0x0003, 0x0040, 0x8001}));
  EXPECT_EQ(m.max_abs, 0x1p-132);
  EXPECT_EQ(m.max_ulp, 2);
  EXPECT_EQ(m.ulp[0], 1u);  // equal
  EXPECT_EQ(m.ulp[2], 1u);  // 0 and -2^-133
  EXPECT_EQ(m.ulp[3], 1u);
  EXPECT_EQ(m.sign_mismatch, 1u);
}

TEST(Metrics, ATensorWithoutElementsHasNoError) {
  const Metrics m =
      MeasureOk(MakeTensor<float>("float32", {3, 0}, {}), MakeTensor<float>("float32", {3, 0}, {}));
  EXPECT_EQ(m.elements, 0u);
  EXPECT_EQ(m.within, 0u);
  EXPECT_EQ(m.max_abs, 0);
  EXPECT_EQ(m.rmse, 0);
  EXPECT_FALSE(m.cosine.has_value());
  EXPECT_FALSE(m.has_worst);
}

TEST(Metrics, IntegersOfAnyWidthAreCountedExactly) {
  const Metrics narrow = MeasureOk(Vector<int32_t>("int32", {-2147483647 - 1, 5, 0}),
                                   Vector<int32_t>("int32", {2147483647, 5, -1}));
  EXPECT_EQ(narrow.max_abs_text, "4294967295");
  EXPECT_EQ(narrow.within, 1u);
  EXPECT_EQ(narrow.max_ulp, 4294967295.0);
  EXPECT_EQ(narrow.sign_mismatch, 2u);
  const Metrics mixed =
      MeasureOk(Vector<uint8_t>("uint8", {255, 7}), Vector<int32_t>("int32", {254, 7}));
  EXPECT_EQ(mixed.max_abs_text, "1");
  EXPECT_EQ(mixed.within, 1u);
  EXPECT_EQ(mixed.bits_equal, 0u);
}

}  // namespace
}  // namespace tdump::compare
