// The vector loops against the same written out, for every kind of vector this processor has.
#include "compare/pair_tile.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "compare/element.h"
#include "compare/error_bins.h"
#include "hwy/highway.h"
#include "tests/compare/builders.h"

namespace tdump::compare {
namespace {

constexpr size_t kLanes = 16;

// Sums 16 lanes by index, then lanes 8, 4, 2 and 1 apart.
template <class ValueAt>
double LaneSum(size_t n, const ValueAt& value) {
  double lanes[kLanes] = {};
  for (size_t i = 0; i < n; ++i) lanes[i % kLanes] += value(i);
  for (size_t width = kLanes / 2; width > 0; width /= 2)
    for (size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  return lanes[0];
}

template <class ValueAt>
double Largest(size_t n, const ValueAt& value) {
  double largest = 0;
  for (size_t i = 0; i < n; ++i) largest = std::max(largest, value(i));
  return largest;
}

struct Pairs {
  std::vector<double> a, b;

  size_t size() const { return a.size(); }
  double error(size_t i) const { return b[i] - a[i]; }
  double larger(size_t i) const { return std::max(std::abs(a[i]), std::abs(b[i])); }
  double ratio(size_t i) const { return error(i) == 0 ? 0 : std::abs(error(i)) / larger(i); }
  double excess(size_t i, double bound) const { return std::abs(error(i)) - bound * larger(i); }
  double ulps(size_t i, const UlpScale& ulp) const {
    const int exponent = larger(i) == 0 ? ulp.least_exponent : std::ilogb(larger(i));
    return std::ldexp(std::abs(error(i)),
                      ulp.mantissa_bits - std::max(exponent, ulp.least_exponent));
  }
};

// A third equal, zeros of both signs, some of the other sign, magnitudes over 80 binary orders.
Pairs RandomPairs(size_t n, std::mt19937_64* random) {
  std::normal_distribution<double> normal;
  std::uniform_int_distribution<int> exponent(-40, 40), kind(0, 8);
  Pairs pairs;
  for (size_t i = 0; i < n; ++i) {
    const double a = std::ldexp(normal(*random), exponent(*random));
    const int k = kind(*random);
    pairs.a.push_back(k == 0 ? 0.0 : a);
    pairs.b.push_back(k == 0 ? -0.0 : k < 4 ? a : k == 4 ? -a : a * (1 + 1e-3 * normal(*random)));
  }
  return pairs;
}

class PairTile : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override {
    hwy::SetSupportedTargetsForTest(GetParam());
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  void TearDown() override {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  std::mt19937_64 random_{11};
};

INSTANTIATE_TEST_SUITE_P(All, PairTile, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& info) { return std::string(hwy::TargetName(info.param)); });

TEST_P(PairTile, MomentsAreTheSameBitsWhateverTheVectors) {
  const UlpScale ulp{.mantissa_bits = 7, .least_exponent = -20};
  const double bound = 0.0005;
  auto scratch = std::make_unique<PairScratch>();
  for (const size_t n : {1, 2, 15, 16, 17, 31, 33, 500, 1007, 1024}) {
    SCOPED_TRACE(n);
    const Pairs p = RandomPairs(n, &random_);
    const PairMoments m = MomentsOf(p.a, p.b, bound, ulp, scratch.get());
    EXPECT_EQ(m.error, LaneSum(n, [&](size_t i) { return p.error(i); }));
    EXPECT_EQ(m.abs_error, LaneSum(n, [&](size_t i) { return std::abs(p.error(i)); }));
    EXPECT_EQ(m.square_error, LaneSum(n, [&](size_t i) { return p.error(i) * p.error(i); }));
    EXPECT_EQ(m.square_a, LaneSum(n, [&](size_t i) { return p.a[i] * p.a[i]; }));
    EXPECT_EQ(m.square_b, LaneSum(n, [&](size_t i) { return p.b[i] * p.b[i]; }));
    EXPECT_EQ(m.product, LaneSum(n, [&](size_t i) { return p.a[i] * p.b[i]; }));
    EXPECT_EQ(m.relative, LaneSum(n, [&](size_t i) { return p.ratio(i); }));
    EXPECT_EQ(m.max_abs, Largest(n, [&](size_t i) { return std::abs(p.error(i)); }));
    EXPECT_EQ(m.max_relative, Largest(n, [&](size_t i) { return p.ratio(i); }));
    EXPECT_EQ(m.max_ulp, Largest(n, [&](size_t i) { return p.ulps(i, ulp); }));
    EXPECT_EQ(m.max_excess, Largest(n, [&](size_t i) { return p.excess(i, bound); }));
    EXPECT_EQ(m.square_a, SquaresOf(p.a));
    double least = HUGE_VAL;
    uint64_t signs = 0, outside = 0;
    for (size_t i = 0; i < n; ++i) {
      if (p.error(i) != 0) least = std::min(least, std::abs(p.error(i)));
      signs += std::signbit(p.a[i]) != std::signbit(p.b[i]);
      outside += p.excess(i, bound) > 1e-9;
      EXPECT_EQ(scratch->error[i], p.error(i));
      EXPECT_EQ(scratch->bin[i], ErrorBins::BinOf(std::abs(p.error(i))));
      const double ulps = p.ulps(i, ulp);
      const int bin = p.error(i) == 0 ? 0 : ulps < 1 ? 1 : std::min(std::ilogb(ulps) + 2, 65);
      EXPECT_EQ(scratch->ulp_bin[i], bin) << ulps;
    }
    EXPECT_EQ(m.least_error, least);
    EXPECT_EQ(m.sign_mismatches, signs);
    EXPECT_EQ(CountOutside(p.a, p.b, bound, 1e-9), outside);
  }
}

TEST_P(PairTile, TheRangeTellsWhatIsNotFinite) {
  std::vector<double> a(100, 1.5), b(100, -2.5);
  EXPECT_TRUE(RangeOf(a, b).finite);
  EXPECT_EQ(RangeOf(a, b).largest, 2.5);
  EXPECT_EQ(RangeOf({}, {}).largest, 0);
  for (const size_t at : {0, 15, 64, 99}) {
    for (const double special : {HUGE_VAL, -HUGE_VAL, static_cast<double>(NAN)}) {
      std::vector<double> c = a;
      c[at] = special;
      EXPECT_FALSE(RangeOf(c, b).finite);
      EXPECT_FALSE(RangeOf(b, c).finite);
    }
  }
}

// Every float16 and bfloat16 there is, and as many float32, against the decoder without vectors.
TEST_P(PairTile, DecodesEveryPattern) {
  struct Case {
    const char* dtype;
    RealType type;
    size_t width;
  };
  for (const Case& c :
       {Case{"float16", RealType::kFloat16, 2}, Case{"bfloat16", RealType::kBFloat16, 2},
        Case{"float32", RealType::kFloat32, 4}}) {
    SCOPED_TRACE(c.dtype);
    const size_t n = 65536 + 5;  // the last ones beside whole vectors
    std::vector<std::byte> bytes(n * c.width + 1);
    for (size_t i = 0; i < n; ++i) {
      const uint32_t pattern = static_cast<uint32_t>(i) * (c.width == 4 ? 65521u : 1u);
      std::memcpy(bytes.data() + 1 + i * c.width, &pattern, c.width);  // at an odd address
    }
    std::vector<double> numbers(n), right(n);
    DecodeReal(c.type, bytes.data() + 1, numbers);
    const DType dtype = DTypeOf(c.dtype);
    DecodeFloat(dtype, FormatOf(dtype), std::span(bytes).subspan(1), right);
    for (size_t i = 0; i < n; ++i) {
      if (std::isnan(right[i]))
        ASSERT_TRUE(std::isnan(numbers[i])) << i;
      else
        ASSERT_EQ(std::bit_cast<uint64_t>(numbers[i]), std::bit_cast<uint64_t>(right[i])) << i;
    }
  }
}

}  // namespace
}  // namespace tdump::compare
