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

// D13: where terms cancel a tiny element has the largest relative error, and no other says so.
TEST(Metrics, TheLargestRelativeErrorHasItsPlaceAndValues) {
  const auto a = Vector<float>("float32", {1000, 1, 1e-6f, 0}),
             b = Vector<float>("float32", {1010, 1, 2e-5f, 0});
  const auto expect = [](const Metrics& m) {
    EXPECT_EQ(m.worst.position, std::vector<uint64_t>{0});
    EXPECT_NEAR(m.max_rel, 0.95, 1e-6);
    ASSERT_TRUE(m.worst_relative);
    EXPECT_EQ(m.worst_relative->position, std::vector<uint64_t>{2});
    EXPECT_EQ(m.worst_relative->a, "1e-06");
    EXPECT_EQ(m.worst_relative->b, "2e-05");
  };
  expect(MeasureOk(a, b));
  // With special values, which is another way through.
  expect(MeasureOk(Vector<float>("float32", {1000, 1, 1e-6f, kInf}),
                   Vector<float>("float32", {1010, 1, 2e-5f, kInf})));
  const Metrics integers =
      MeasureOk(Vector<int64_t>("int64", {1 << 20, 2}), Vector<int64_t>("int64", {1 << 19, 0}));
  EXPECT_EQ(integers.worst.position, std::vector<uint64_t>{0});
  EXPECT_EQ(integers.worst_relative->position, std::vector<uint64_t>{1});
  const Metrics complexes = MeasureOk(MakeTensor<float>("complex64", {2}, {100, 0, 0, 1}),
                                      MakeTensor<float>("complex64", {2}, {110, 0, 0, -1}));
  EXPECT_EQ(complexes.worst.position, std::vector<uint64_t>{0});
  EXPECT_EQ(complexes.worst_relative->position, std::vector<uint64_t>{1});
  EXPECT_FALSE(MeasureOk(a, a).worst_relative);
}

// Of several that are equal the first, in whichever tile, chunk and thread.
TEST(Metrics, TheFirstOfEqualRelativeErrorsIsTold) {
  constexpr size_t kCount = 1'500'000, kFirst = 700'001;
  std::vector<float> left(kCount, 1), right(kCount, 1);
  for (size_t i = 0; i < kCount; i += 1000) right[i] = 1.25f;
  for (const size_t i : {kFirst, kFirst + 5, kFirst + 3000, kCount - 1}) {
    left[i] = 1e-3f;
    right[i] = 2e-3f;
  }
  const Tensor a = Vector<float>("float32", left), b = Vector<float>("float32", right);
  Operand of_a = a.operand(), of_b = b.operand();
  of_a.open = [&] { return Result<ReadBytes>(FromMemory(a.payload)); };
  of_b.open = [&] { return Result<ReadBytes>(FromMemory(b.payload)); };
  for (const unsigned threads : {1u, 2u, 7u}) {
    const Result<Metrics> m = Measure(of_a, of_b, {}, threads);
    ASSERT_TRUE(m.ok());
    EXPECT_EQ(m->worst.position, std::vector<uint64_t>{0});
    EXPECT_EQ(m->worst_relative->position, std::vector<uint64_t>{kFirst}) << threads;
  }
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

// The modulus of the second numbers is beyond a double, and so is that of their difference.
TEST(Metrics, AComplexModulusBeyondADouble) {
  const double most = 1.7e308;
  const auto a = MakeTensor<double>("complex128", {3}, {1, 0, most, most, 1, 0});
  const Metrics m = MeasureOk(a, MakeTensor<double>("complex128", {3}, {2, 0, -most, -most, 1, 0}),
                              {.relative = 0.75});
  EXPECT_EQ(m.max_rel, 2);
  ASSERT_TRUE(m.worst_relative);
  EXPECT_EQ(m.worst_relative->position, std::vector<uint64_t>{1});
  EXPECT_NEAR(m.mean_rel, 2.5 / 3, 1e-15);
  EXPECT_EQ(m.max_abs, kInf);
  EXPECT_EQ(m.outside(), 1u);
  // Far beyond, and yet alike.
  const Metrics near = MeasureOk(
      a, MakeTensor<double>("complex128", {3}, {1, 0, most, most * 0.5, 1, 0}), {.relative = 0.75});
  EXPECT_NEAR(near.max_rel, 0.5 / std::sqrt(2), 1e-15);
  EXPECT_EQ(near.outside(), 0u);
}

// The parts' difference alone is.
TEST(Metrics, AComplexDifferenceBeyondADouble) {
  const double most = 1.7e308;
  const Metrics m = MeasureOk(MakeTensor<double>("complex128", {1}, {most, 0}),
                              MakeTensor<double>("complex128", {1}, {-most, 0}), {.relative = 1});
  EXPECT_EQ(m.max_rel, 2);
  EXPECT_EQ(m.mean_rel, 2);
  EXPECT_EQ(m.outside(), 1u);
}

TEST(Metrics, ADifferenceBeyondADouble) {
  const double most = 1.7e308;
  const Metrics m = MeasureOk(Vector<double>("float64", {most, most, 1}),
                              Vector<double>("float64", {-most, -most, 1}), {.relative = 0.5});
  EXPECT_EQ(m.max_rel, 2);
  ASSERT_TRUE(m.worst_relative);
  EXPECT_EQ(m.worst_relative->position, std::vector<uint64_t>{0});
  EXPECT_NEAR(m.mean_rel, 4.0 / 3, 1e-15);
  EXPECT_EQ(m.max_abs, kInf);
  EXPECT_EQ(m.p50, kInf);
  EXPECT_EQ(m.p999, kInf);
  EXPECT_EQ(m.outside(), 2u);
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

TEST(Metrics, EmptyAndScalar) {
  for (const std::vector<int64_t>& sizes : std::vector<std::vector<int64_t>>{{0}, {0, 5}, {5, 0}}) {
    const Metrics empty =
        MeasureOk(MakeTensor<float>("float32", sizes, {}), MakeTensor<float>("float32", sizes, {}));
    EXPECT_EQ(empty.elements, 0u);
    EXPECT_EQ(empty.outside(), 0u);
    EXPECT_EQ(empty.max_abs, 0);
    EXPECT_EQ(empty.mean_abs, 0);
    EXPECT_FALSE(empty.has_worst);
  }
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
  EXPECT_EQ(m.channels, 100u);
  EXPECT_DOUBLE_EQ(m.rms_in_common, 0.025);  // sqrt(0.25^2 / 100)
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
    EXPECT_EQ(m.worst_relative->position, one.worst_relative->position);
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
  double largest_ratio = 0;
  size_t of_largest_ratio = 0;
  for (size_t i = 0; i < large.a.size(); ++i) {
    bits += std::bit_cast<uint32_t>(large.a[i]) == std::bit_cast<uint32_t>(large.b[i]);
    if (std::isnan(large.a[i])) continue;
    ++compared;
    const long double e = static_cast<long double>(large.b[i]) - large.a[i];
    errors += std::abs(e);
    squares += e * e;
    square_a += static_cast<long double>(large.a[i]) * large.a[i];
    columns[i % Large::kColumns] += e;
    const double x = large.a[i], y = large.b[i];
    const double larger = std::max(std::abs(x), std::abs(y));
    if (larger == 0 || std::abs(y - x) / larger <= largest_ratio) continue;
    largest_ratio = std::abs(y - x) / larger;
    of_largest_ratio = i;
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
  EXPECT_EQ(m.max_rel, largest_ratio);
  EXPECT_EQ(m.worst_relative->position,
            (std::vector<uint64_t>{of_largest_ratio / Large::kColumns,
                                   of_largest_ratio % Large::kColumns}));
  EXPECT_EQ(m.worst_channel->index, 17u);
  EXPECT_NEAR(m.worst_channel->mean_error, static_cast<double>(columns[17] / Large::kRows), 1e-12);
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

}  // namespace
}  // namespace tdump::compare
