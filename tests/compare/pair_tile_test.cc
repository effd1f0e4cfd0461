// The vector loops against the same written out, for every kind of vector this processor has.
#include "compare/pair_tile.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <memory>
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
    const Reals a = Reals::Of(p.a), b = Reals::Of(p.b);
    const PairMoments m = MomentsOf(a, b, n, bound, ulp, scratch.get());
    ASSERT_TRUE(m.usable);
    EXPECT_EQ(m.error, LaneSum(n, [&](size_t i) { return p.error(i); }));
    EXPECT_EQ(m.abs_error, LaneSum(n, [&](size_t i) { return std::abs(p.error(i)); }));
    EXPECT_EQ(m.square_error, LaneSum(n, [&](size_t i) { return p.error(i) * p.error(i); }));
    EXPECT_EQ(m.square_a, LaneSum(n, [&](size_t i) { return p.a[i] * p.a[i]; }));
    EXPECT_EQ(m.square_b, LaneSum(n, [&](size_t i) { return p.b[i] * p.b[i]; }));
    EXPECT_EQ(m.product, LaneSum(n, [&](size_t i) { return p.a[i] * p.b[i]; }));
    EXPECT_EQ(m.relative, LaneSum(n, [&](size_t i) { return p.ratio(i); }));
    EXPECT_EQ(m.max_abs, Largest(n, [&](size_t i) { return std::abs(p.error(i)); }));
    EXPECT_EQ(m.max_relative, Largest(n, [&](size_t i) { return p.ratio(i); }));
    const double most_ulps = Largest(n, [&](size_t i) { return p.ulps(i, ulp); });
    EXPECT_EQ(MaxUlpsOf(a, b, n, ulp), most_ulps);
    EXPECT_EQ(m.max_ulp_bin, ErrorBins::BinOf(most_ulps));
    EXPECT_EQ(m.max_excess, Largest(n, [&](size_t i) { return p.excess(i, bound); }));
    EXPECT_EQ(m.square_a, SquaresOf(a, n));
    // Where all are within the bound, and where it is 0.
    EXPECT_EQ(MomentsOf(a, b, n, 3, ulp, scratch.get()).max_excess, 0);
    EXPECT_EQ(MomentsOf(a, b, n, 0, ulp, scratch.get()).max_excess, m.max_abs);
    size_t least = ErrorBins::kBins - 1;
    uint64_t signs = 0, zero_signs = 0, outside = 0;
    std::array<uint64_t, kUlpBins> ulp_counts{}, counted{};
    for (size_t i = 0; i < n; ++i) {
      if (p.error(i) != 0) least = std::min(least, ErrorBins::BinOf(std::abs(p.error(i))));
      signs += std::signbit(p.a[i]) != std::signbit(p.b[i]);
      zero_signs += p.a[i] == 0 && p.b[i] == 0 && std::signbit(p.a[i]) != std::signbit(p.b[i]);
      outside += p.excess(i, bound) > 1e-9;
      EXPECT_EQ(scratch->error[i], p.error(i));
      if (p.error(i) == 0)
        EXPECT_LT(scratch->bin[i], ErrorBins::kUnused);
      else
        EXPECT_EQ(scratch->bin[i], ErrorBins::BinOf(std::abs(p.error(i))));
      const double ulps = p.ulps(i, ulp);
      const int bin = p.error(i) == 0 ? 0 : ulps < 1 ? 1 : std::min(std::ilogb(ulps) + 2, 65);
      EXPECT_EQ(scratch->ulp_bin[i], bin) << ulps;
      ++ulp_counts[static_cast<size_t>(bin)];
    }
    EXPECT_EQ(m.least_bin, least);
    EXPECT_EQ(m.sign_mismatches, signs);
    EXPECT_EQ(m.zero_sign_mismatches, zero_signs);
    EXPECT_EQ(CountOutside(a, b, n, bound, 1e-9), outside);
    CountUlps(scratch->ulp_bin, n, counted.data());
    EXPECT_EQ(counted, ulp_counts);
  }
}

// The same numbers as they are stored, at an odd address: what the doubles give, bit for bit.
TEST_P(PairTile, NumbersAreReadAsTheyLie) {
  struct Case {
    const char* dtype;
    RealType type;
    size_t width;
    int mantissa_bits, least_exponent;
  };
  for (const Case& c : {Case{"float32", RealType::kFloat32, 4, 23, -126},
                        Case{"bfloat16", RealType::kBFloat16, 2, 7, -126},
                        Case{"float16", RealType::kFloat16, 2, 10, -14}}) {
    SCOPED_TRACE(c.dtype);
    const size_t n = 1021;
    std::vector<std::byte> a(n * c.width + 1), b(n * c.width + 1);
    for (size_t i = 1; i < a.size(); ++i) {
      a[i] = static_cast<std::byte>(random_());
      b[i] = i % 7 < 3 ? a[i] : static_cast<std::byte>(random_());
    }
    // Exponents of all ones are made smaller: finite. Zeros and subnormals stay.
    for (size_t i = c.width; i < a.size(); i += c.width) {
      for (auto* side : {&a, &b}) (*side)[i] &= std::byte{0xBF};
    }
    std::vector<double> left(n), right(n);
    const Reals x{c.type, a.data() + 1}, y{c.type, b.data() + 1};
    DecodeReal(x, left);
    DecodeReal(y, right);
    const UlpScale ulp{c.mantissa_bits, c.least_exponent};
    auto stored = std::make_unique<PairScratch>(), decoded = std::make_unique<PairScratch>();
    const PairMoments m = MomentsOf(x, y, n, 0.01, ulp, stored.get());
    const PairMoments d = MomentsOf(Reals::Of(left), Reals::Of(right), n, 0.01, ulp, decoded.get());
    ASSERT_TRUE(m.usable && d.usable);
    for (double PairMoments::*field :
         {&PairMoments::error, &PairMoments::abs_error, &PairMoments::square_error,
          &PairMoments::square_a, &PairMoments::square_b, &PairMoments::product,
          &PairMoments::relative, &PairMoments::max_abs, &PairMoments::max_relative,
          &PairMoments::max_excess})
      EXPECT_EQ(m.*field, d.*field);
    EXPECT_EQ(m.least_bin, d.least_bin);
    EXPECT_EQ(m.max_ulp_bin, d.max_ulp_bin);
    EXPECT_EQ(MaxUlpsOf(x, y, n, ulp), MaxUlpsOf(Reals::Of(left), Reals::Of(right), n, ulp));
    EXPECT_EQ(m.sign_mismatches, d.sign_mismatches);
    EXPECT_TRUE(std::equal(stored->bin, stored->bin + n, decoded->bin));
    EXPECT_TRUE(std::equal(stored->ulp_bin, stored->ulp_bin + n, decoded->ulp_bin));
    EXPECT_EQ(SquaresOf(x, n), SquaresOf(Reals::Of(left), n));
    EXPECT_EQ(CountOutside(x, y, n, 0.01, 0.5),
              CountOutside(Reals::Of(left), Reals::Of(right), n, 0.01, 0.5));
  }
}

TEST_P(PairTile, WhatVectorsDoNotHandleIsTold) {
  const std::vector<double> a(100, 1.5), b(100, -2.5);
  auto scratch = std::make_unique<PairScratch>();
  const auto usable = [&](const std::vector<double>& x, const std::vector<double>& y) {
    return MomentsOf(Reals::Of(x), Reals::Of(y), x.size(), 0, {}, scratch.get()).usable;
  };
  EXPECT_TRUE(usable(a, b));
  EXPECT_TRUE(usable(std::vector<double>(5, 0.0), std::vector<double>(5, -0.0)));
  for (const size_t at : {0, 15, 64, 99}) {
    for (const double special : {HUGE_VAL, -HUGE_VAL, static_cast<double>(NAN), 1e300}) {
      std::vector<double> c = a;
      c[at] = special;
      EXPECT_FALSE(usable(c, b)) << special;
      EXPECT_FALSE(usable(b, c)) << special;
      EXPECT_EQ(std::isfinite(SquaresOf(Reals::Of(c), c.size())), false) << special;
    }
  }
  EXPECT_FALSE(usable({1e-300, 0}, {0, 0}));
  EXPECT_FALSE(usable({1, 1e-300}, {1, 0}));
}

TEST_P(PairTile, SumsAreAddedOneByOne) {
  for (const size_t n : {0, 1, 7, 16, 37}) {
    std::vector<double> sums(n), numbers(n);
    for (size_t i = 0; i < n; ++i) {
      sums[i] = static_cast<double>(i);
      numbers[i] = 100.0 * static_cast<double>(i + 1);
    }
    AddEach(sums.data(), numbers.data(), n);
    for (size_t i = 0; i < n; ++i)
      EXPECT_EQ(sums[i], static_cast<double>(i) + 100.0 * static_cast<double>(i + 1));
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
    DecodeReal({c.type, bytes.data() + 1}, numbers);
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
