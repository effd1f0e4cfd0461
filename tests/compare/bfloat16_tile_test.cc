// The loop over bfloat16 against the one over any format, bit for bit, for every kind of vector
// this processor has.
#include "compare/bfloat16_tile.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "compare/error_bins.h"
#include "hwy/highway.h"
#include "tests/compare/builders.h"

namespace tdump::compare {
namespace {

constexpr uint16_t kOne = 0x3F80, kMinus = 0x8000;  // 1.0; the sign

uint16_t PatternOf(float value) {  // cut off
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
}
float NumberOf(uint16_t pattern) { return std::bit_cast<float>(uint32_t{pattern} << 16); }

struct Pairs {
  std::vector<uint16_t> a, b;

  size_t size() const { return a.size(); }
  const std::byte* left() const { return reinterpret_cast<const std::byte*>(a.data()); }
  const std::byte* right() const { return reinterpret_cast<const std::byte*>(b.data()); }
  Reals left_reals() const { return {RealType::kBFloat16, left()}; }
  Reals right_reals() const { return {RealType::kBFloat16, right()}; }
};

// Equal ones, zeros of both signs and of the other sign, one side 0, noise, other signs, exponents
// up to 15 apart.
Pairs RandomPairs(size_t n, std::mt19937_64* random) {
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> exponent(-35, 35), kind(0, 15), shift(0, 14);
  Pairs pairs;
  for (size_t i = 0; i < n; ++i) {
    const float x = std::ldexp(1 + std::abs(normal(*random)), exponent(*random));
    const float a = normal(*random) < 0 ? -x : x;
    const int k = kind(*random);
    const float b = k < 3    ? a
                    : k == 3 ? -a
                    : k == 4 ? 0.0f
                    : k == 5 ? std::ldexp(a, -shift(*random))
                    : k == 6 ? -std::ldexp(a, shift(*random))
                             : a * (1 + 0x1p-6f * normal(*random));
    pairs.a.push_back(k == 7 ? 0 : k == 8 ? kMinus : PatternOf(a));
    pairs.b.push_back(k == 7 ? kMinus : k == 8 ? 0 : PatternOf(b));
  }
  return pairs;
}

class BFloat16Tile : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override {
    // Where there are no vectors the other loop does everything.
    if (GetParam() == HWY_SCALAR) GTEST_SKIP();
    hwy::SetSupportedTargetsForTest(GetParam());
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  void TearDown() override {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }

  PairMoments Moments(const Pairs& p, double bound, const TileChannels& channels = {}) {
    const BFloat16Look look = LookAtBFloat16(p.left(), p.right(), p.size());
    EXPECT_TRUE(look.usable);
    bins_.assign(ErrorBins::kBins * ErrorBins::kTurns, 0);
    return MomentsOfBFloat16(p.left(), p.right(), p.size(), bound, look, channels, bins_.data(),
                             scratch_.get());
  }

  std::mt19937_64 random_{12};
  std::vector<uint32_t> bins_;
  std::unique_ptr<PairScratch> scratch_ = std::make_unique<PairScratch>();
};

INSTANTIATE_TEST_SUITE_P(All, BFloat16Tile, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& info) { return std::string(hwy::TargetName(info.param)); });

void ExpectSame(const PairMoments& m, const PairMoments& right) {
  for (double PairMoments::*field :
       {&PairMoments::error, &PairMoments::abs_error, &PairMoments::square_error,
        &PairMoments::square_a, &PairMoments::square_b, &PairMoments::product,
        &PairMoments::relative, &PairMoments::max_abs, &PairMoments::max_relative})
    EXPECT_EQ(std::bit_cast<uint64_t>(m.*field), std::bit_cast<uint64_t>(right.*field));
  EXPECT_EQ(m.least_bin, right.least_bin);
  EXPECT_EQ(m.max_ulp_bin, right.max_ulp_bin);
  EXPECT_EQ(m.sign_mismatches, right.sign_mismatches);
  EXPECT_EQ(m.zero_sign_mismatches, right.zero_sign_mismatches);
}

TEST_P(BFloat16Tile, GivesTheBitsOfTheOtherLoop) {
  auto other = std::make_unique<PairScratch>();
  for (const size_t n : {32, 64, 96, 512, 992, 1024}) {
    SCOPED_TRACE(n);
    const Pairs p = RandomPairs(n, &random_);
    const PairMoments m = Moments(p, 0.01);
    const PairMoments right =
        MomentsOf(p.left_reals(), p.right_reals(), n, 0.01, kBFloat16Ulp, other.get());
    ASSERT_TRUE(m.usable && right.usable);
    ExpectSame(m, right);
    EXPECT_TRUE(std::equal(other->ulp_bin, other->ulp_bin + n, scratch_->ulp_bin));
    std::vector<uint64_t> counts(ErrorBins::kBins);
    for (size_t i = 0; i < n; ++i) ++counts[other->bin[i]];
    for (size_t bin = 0; bin < ErrorBins::kBins; ++bin) {
      uint64_t count = 0;
      for (size_t turn = 0; turn < ErrorBins::kTurns; ++turn)
        count += bins_[bin * ErrorBins::kTurns + turn];
      if (bin >= ErrorBins::kUnused) {
        ASSERT_EQ(count, counts[bin]) << bin;
      }
    }
  }
}

TEST_P(BFloat16Tile, TellsWhetherTheExcessIsMore) {
  for (const double bound : {0.0, 0x1p-60, 1e-5, 0.004, 0.1, 1.0, 3.0, 0x1p60}) {
    SCOPED_TRACE(bound);
    ASSERT_TRUE(IsBoundForBFloat16(bound));
    for (int repeat = 0; repeat < 50; ++repeat) {
      const Pairs p = RandomPairs(32, &random_);
      const double excess = Moments(p, bound).max_excess;
      const double right = MaxExcessOf(p.left_reals(), p.right_reals(), 32, bound);
      EXPECT_EQ(right,
                MomentsOf(p.left_reals(), p.right_reals(), 32, bound, kBFloat16Ulp, scratch_.get())
                    .max_excess);
      EXPECT_GE(excess * (1 + 0x1p-20), right);
      if (right > 0) {
        EXPECT_GT(excess, 0);
      }
    }
  }
  // Just above and just below a bound that a float does not hold: 1 - 1/1.25 is 1/5.
  Pairs p{std::vector<uint16_t>(32, kOne), std::vector<uint16_t>(32, PatternOf(1.25f))};
  EXPECT_GT(Moments(p, std::nextafter(0.2, 0.0)).max_excess, 0);
  EXPECT_EQ(Moments(p, 0.2001).max_excess, 0);
  EXPECT_EQ(MaxExcessOf(p.left_reals(), p.right_reals(), 32, 0.2001), 0);
  EXPECT_FALSE(IsBoundForBFloat16(0x1p-61));
  EXPECT_FALSE(IsBoundForBFloat16(1e300));
}

TEST_P(BFloat16Tile, AllEqualHasNoErrors) {
  const Pairs p{std::vector<uint16_t>(64, kOne), std::vector<uint16_t>(64, kOne)};
  const PairMoments m = Moments(p, 0.01);
  EXPECT_EQ(m.max_abs, 0);
  EXPECT_EQ(m.relative, 0);
  EXPECT_EQ(m.max_ulp_bin, 0u);
  EXPECT_EQ(m.least_bin, ErrorBins::kBins - 1);
  EXPECT_EQ(m.square_a, 64);
  EXPECT_EQ(m.max_excess, 0);
}

TEST_P(BFloat16Tile, SumsOfChannelsAreInTheirPlaces) {
  constexpr size_t kChannels = 96, kTile = 1024, kFirst = 64;
  const Pairs p = RandomPairs(kTile, &random_);
  std::vector<double> sums(kChannels, 0.5), right(kChannels, 0.5);
  Moments(p, 0, {.sums = sums.data(), .count = kChannels, .first = kFirst});
  for (size_t i = 0; i < kTile; ++i)
    right[(kFirst + i) % kChannels] +=
        static_cast<double>(NumberOf(p.b[i])) - static_cast<double>(NumberOf(p.a[i]));
  for (size_t channel = 0; channel < kChannels; ++channel)
    EXPECT_EQ(sums[PlaceInBlock(channel)], right[channel]) << channel;
}

// One number of one pair among 1024 equal ones, at every place in a vector.
TEST_P(BFloat16Tile, WhatItDoesNotHandleIsTold) {
  const auto usable = [](uint16_t left, uint16_t right) {
    int count = 0;
    for (const size_t at : {0, 1, 15, 16, 31, 512, 1023}) {
      Pairs p{std::vector<uint16_t>(1024, kOne), std::vector<uint16_t>(1024, kOne)};
      p.a[at] = left;
      p.b[at] = right;
      count += LookAtBFloat16(p.left(), p.right(), 1024).usable;
      std::swap(p.a, p.b);
      count += LookAtBFloat16(p.left(), p.right(), 1024).usable;
    }
    EXPECT_TRUE(count == 0 || count == 14);
    return count == 14;
  };
  EXPECT_TRUE(usable(kOne, kOne));
  EXPECT_TRUE(usable(0, kOne));
  EXPECT_TRUE(usable(kMinus, 0));
  EXPECT_TRUE(usable(0x7EFF, 0xFEFF));
  EXPECT_FALSE(usable(0x7F00, 0xFF00));  // their difference is no float
  EXPECT_FALSE(usable(0x7F80, kOne));    // infinity
  EXPECT_FALSE(usable(0xFF80, 0xFF80));
  EXPECT_FALSE(usable(0x7FC0, kOne));  // NaN
  EXPECT_FALSE(usable(0xFFFF, 0xFFFF));
  EXPECT_FALSE(usable(0x0001, 0));                                 // subnormal
  EXPECT_FALSE(usable(PatternOf(0x1p-81f), PatternOf(0x1p-81f)));  // tiny
  EXPECT_TRUE(usable(PatternOf(0x1p-79f), PatternOf(0x1p-79f)));
  EXPECT_TRUE(usable(PatternOf(0x1p-15f), kOne));
  EXPECT_FALSE(usable(PatternOf(0x1p-17f), kOne));  // far apart
  EXPECT_FALSE(usable(PatternOf(0x1p-17f) | kMinus, kOne));
}

TEST_P(BFloat16Tile, SignsAreCounted) {
  Pairs p{std::vector<uint16_t>(1024, 0), std::vector<uint16_t>(1024, kMinus)};
  PairMoments m = Moments(p, 0);
  EXPECT_EQ(m.sign_mismatches, 1024u);
  EXPECT_EQ(m.zero_sign_mismatches, 1024u);
  p.a[77] = kMinus;
  p.a[78] = kOne;
  p.a[79] = p.b[79] = kOne;
  m = Moments(p, 0);
  EXPECT_EQ(m.sign_mismatches, 1022u);
  EXPECT_EQ(m.zero_sign_mismatches, 1021u);
}

Tensor BFloat16Tensor(std::vector<int64_t> sizes, const std::vector<uint16_t>& patterns) {
  return MakeTensor<uint16_t>("bfloat16", std::move(sizes), patterns);
}

TEST_P(BFloat16Tile, TheLargestNumbersOfBothSignsAreApart) {
  for (const size_t count : {32u, 1024u, 4096u}) {
    std::vector<uint16_t> a(count), b(count);
    a[3] = 0x7F7F;
    b[3] = 0xFF7F;
    const Metrics metrics = MeasureOk(Vector("bfloat16", a), Vector("bfloat16", b));
    EXPECT_EQ(metrics.max_abs, 2.0 * NumberOf(0x7F7F)) << count;
    EXPECT_EQ(metrics.worst.position, std::vector<uint64_t>{3}) << count;
  }
}

// Of rows that begin anywhere in a tile, with tiles between that only the other loop handles.
TEST_P(BFloat16Tile, TensorsAreMeasuredAsTheSameNumbersInDouble) {
  for (const int64_t columns : {32, 50, 2080, 4096}) {
    SCOPED_TRACE(columns);
    const int64_t rows = 600'000 / columns;
    const std::vector<int64_t> sizes = {rows, columns};
    Pairs p = RandomPairs(static_cast<size_t>(rows * columns), &random_);
    for (size_t i = 5000; i < p.size(); i += 9001) p.b[i] = kOne | kMinus;  // far from many
    for (size_t i = 3000; i < p.size(); i += 70'001) p.b[i] = 0x7FC0;
    std::vector<double> left, right;
    for (const uint16_t pattern : p.a) left.push_back(NumberOf(pattern));
    for (const uint16_t pattern : p.b) right.push_back(NumberOf(pattern));
    const Bound bound{.relative = 0.005, .scale = 1e-9};
    const Metrics m = MeasureOk(BFloat16Tensor(sizes, p.a), BFloat16Tensor(sizes, p.b), bound);
    const Metrics d = MeasureOk(MakeTensor<double>("float64", sizes, left),
                                MakeTensor<double>("float64", sizes, right), bound);
    for (double Metrics::*field :
         {&Metrics::max_abs, &Metrics::max_rel, &Metrics::mean_abs, &Metrics::mean_rel,
          &Metrics::mean_error, &Metrics::rmse, &Metrics::p50, &Metrics::p90, &Metrics::p99,
          &Metrics::p999, &Metrics::rms_in_common, &Metrics::rms_a, &Metrics::rms_b,
          &Metrics::bound_abs})
      EXPECT_EQ(m.*field, d.*field);
    for (uint64_t Metrics::*field : {&Metrics::elements, &Metrics::bits_equal, &Metrics::within,
                                     &Metrics::compared, &Metrics::channels, &Metrics::nan_mismatch,
                                     &Metrics::sign_mismatch, &Metrics::zero_sign_mismatch})
      EXPECT_EQ(m.*field, d.*field);
    EXPECT_EQ(m.cosine, d.cosine);
    EXPECT_EQ(m.sqnr_db, d.sqnr_db);
    EXPECT_EQ(m.worst.position, d.worst.position);
    EXPECT_EQ(m.worst_relative->position, d.worst_relative->position);
    EXPECT_EQ(m.worst_channel->index, d.worst_channel->index);
    EXPECT_EQ(m.worst_channel->mean_error, d.worst_channel->mean_error);
    EXPECT_GT(m.outside(), 0u);
  }
}

}  // namespace
}  // namespace tdump::compare
