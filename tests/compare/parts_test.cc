#include "compare/parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "compare/bounds.h"
#include "compare/payload_view.h"
#include "io/statistics.h"

namespace tdump::compare {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

const DType kFloat32 = MakeDType("float32", 32);

std::vector<std::byte> BytesOf(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

io::Record Tensor(int64_t size) {
  io::Record record;
  record.dtype = kFloat32;
  record.sizes = {size};
  record.strides = {1};
  return record;
}

io::Record WithSample(const std::vector<float>& values) {
  io::Record record = Tensor(1000);
  record.sample = BytesOf(values);
  return record;
}

io::Record WithStatistics(const std::vector<float>& values) {
  io::Record record = Tensor(static_cast<int64_t>(values.size()));
  record.statistics = io::StatisticsOf(kFloat32, BytesOf(values));
  return record;
}

io::Record WithSlice(int64_t begin, int64_t size) {
  io::Record record = Tensor(1000);
  record.slice = io::Slice{.begins = {begin}, .sizes = {size}, .steps = {1}};
  record.slice->payload.logical_bytes = static_cast<uint64_t>(size) * 4;
  return record;
}

Comparison Judge(const io::Record& a, const io::Record& b, const std::vector<float>& left = {},
                 const std::vector<float>& right = {}) {
  Comparison comparison = JudgeMeta(a, b);
  const auto x = BytesOf(left), y = BytesOf(right);
  const auto opener = [](const std::vector<std::byte>& bytes) {
    return [&bytes](io::Record*) { return Result<ReadBytes>(FromMemory(bytes)); };
  };
  const Bound bound = LocalBoundOf({.a = a.dtype, .b = b.dtype}).bound;
  const Status status = JudgeParts(a, opener(x), b, opener(y), bound, &comparison);
  EXPECT_TRUE(status.ok()) << status.message();
  return comparison;
}

TEST(JudgeParts, EqualSlicesAreTheSameAndSayWhatTheyAre) {
  const Comparison same = Judge(WithSlice(5, 3), WithSlice(5, 3), {1, 2, 3}, {1, 2, 3});
  EXPECT_EQ(same.verdict.bitwise, Answer::kSame);
  EXPECT_EQ(same.verdict.tolerance, Answer::kSame);
  EXPECT_THAT(same.notes, Contains(HasSubstr("slice")));
  const Comparison other = Judge(WithSlice(5, 3), WithSlice(5, 3), {1, 2, 3}, {1, 2, 4});
  EXPECT_EQ(other.verdict.tolerance, Answer::kDiffers);
}

TEST(JudgeParts, DifferentSlicesAreNotJudged) {
  const Comparison comparison = Judge(WithSlice(5, 3), WithSlice(6, 3), {1, 2, 3}, {1, 2, 3});
  EXPECT_FALSE(comparison.verdict.Judged());
}

TEST(JudgeParts, SamplesAreMeasured) {
  EXPECT_EQ(Judge(WithSample({1, 2}), WithSample({1, 2})).verdict.bitwise, Answer::kSame);
  const Comparison differs = Judge(WithSample({1, 2}), WithSample({1, 3}));
  EXPECT_EQ(differs.verdict.tolerance, Answer::kDiffers);
  EXPECT_THAT(differs.notes, Contains(HasSubstr("sample of 2 elements")));
  EXPECT_FALSE(Judge(WithSample({1, 2}), WithSample({1, 2, 3})).verdict.Judged());
}

Comparison JudgeByStatistics(const io::Record& a, const io::Record& b, const Bound& bound) {
  Comparison comparison = JudgeMeta(a, b);
  JudgeStatistics({a, SummaryOf(*a.statistics)}, {b, SummaryOf(*b.statistics)}, bound, nullptr,
                  &comparison);
  return comparison;
}

TEST(JudgeStatistics, ProveDifferencesOnly) {
  const Bound bound = {.relative = 0.01, .scale = 0, .text = ""};
  const Comparison same =
      JudgeByStatistics(WithStatistics({1, 2, 3}), WithStatistics({3, 2, 1}), bound);
  EXPECT_EQ(same.evidence, Evidence::kStatistics);
  EXPECT_EQ(same.verdict.bitwise, Answer::kNotJudged);
  EXPECT_EQ(same.verdict.tolerance, Answer::kNotJudged);
  EXPECT_EQ(same.verdict.statistics, Answer::kSame);
  EXPECT_TRUE(same.verdict.Judged());
  EXPECT_THAT(same.notes, Contains("statistics agree, values were not kept"));

  const Comparison near =
      JudgeByStatistics(WithStatistics({1, 2, 3}), WithStatistics({1, 2, 3.01f}), bound);
  EXPECT_EQ(near.verdict.bitwise, Answer::kDiffers);
  EXPECT_EQ(near.verdict.statistics, Answer::kSame);
  EXPECT_FALSE(near.verdict.Fails(false) || near.verdict.Unproven());

  const Comparison far =
      JudgeByStatistics(WithStatistics({1, 2, 3}), WithStatistics({1, 2, 4}), bound);
  EXPECT_EQ(far.verdict.bitwise, Answer::kDiffers);
  EXPECT_EQ(far.verdict.tolerance, Answer::kDiffers);
  EXPECT_EQ(far.verdict.statistics, Answer::kDiffers);
  EXPECT_EQ(far.verdict.special, Answer::kNotJudged);
  EXPECT_THAT(far.notes,
              Contains(HasSubstr("statistics differ: max 3 and 4; the bound allows 0.04")));
}

TEST(JudgeStatistics, SpecialValuesAreCounted) {
  const Bound wide = {.relative = 0.9, .scale = 10, .text = ""};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& other :
       {std::vector<float>{1, 2, nan}, {1, 2, inf}, {1, 2, -inf}}) {
    const Comparison comparison =
        JudgeByStatistics(WithStatistics({1, 2, 3}), WithStatistics(other), wide);
    EXPECT_EQ(comparison.verdict.special, Answer::kDiffers);
    EXPECT_TRUE(comparison.verdict.Fails(false));
  }
  const auto all_nan = WithStatistics({nan, nan});
  EXPECT_EQ(JudgeByStatistics(all_nan, all_nan, wide).verdict.statistics, Answer::kSame);
}

// Elements in another order: hashes tell, statistics do not.
TEST(JudgeStatistics, HashesThatDifferAreNotExcusedByStatistics) {
  const Bound bound = {.relative = 0.01, .scale = 0, .text = ""};
  io::Record a = WithStatistics({1, 2, 3}), b = WithStatistics({3, 2, 1});
  a.hash = {1, 2};
  b.hash = {3, 4};
  const Comparison moved = JudgeByStatistics(a, b, bound);
  EXPECT_EQ(moved.verdict.statistics, Answer::kNotJudged);
  EXPECT_TRUE(moved.verdict.Unproven());
  EXPECT_THAT(moved.notes, Contains(HasSubstr("bits differ where statistics agree")));
  // Of exact values that is beyond the bound.
  const Comparison exact = JudgeByStatistics(a, b, {});
  EXPECT_EQ(exact.verdict.tolerance, Answer::kDiffers);
  EXPECT_EQ(exact.verdict.statistics, Answer::kDiffers);
  // Sums in another order round otherwise: that is no proof either.
  b = WithStatistics({1, 2, 3.01f});
  b.hash = {3, 4};
  EXPECT_TRUE(JudgeByStatistics(a, b, bound).verdict.Unproven());
  b = WithStatistics({1, 2, 4});
  b.hash = {3, 4};
  EXPECT_EQ(JudgeByStatistics(a, b, bound).verdict.statistics, Answer::kDiffers);
}

TEST(JudgeStatistics, WhatIsNotOfTheSameNumbersIsNotJudged) {
  const Bound bound = {.relative = 0.01, .scale = 0, .text = ""};
  const io::Record a = WithStatistics({1, 2, 3});
  io::Record quantised = WithStatistics({10, 20, 30});
  quantised.dtype = MakeDType("float8_e4m3fn", 8);
  EXPECT_EQ(JudgeByStatistics(a, quantised, bound).verdict.statistics, Answer::kNotJudged);
  io::Record expanded = WithStatistics({1, 2, 3});
  expanded.strides = {0};
  EXPECT_EQ(JudgeByStatistics(a, expanded, bound).verdict.statistics, Answer::kNotJudged);
  io::Record half = WithStatistics({1, 2, 3.01f});
  half.dtype = MakeDType("bfloat16", 16);
  EXPECT_EQ(JudgeByStatistics(a, half, bound).verdict.statistics, Answer::kSame);
}

// Subnormal numbers may be zero on one side.
TEST(JudgeStatistics, FlushedNumbersAreNotOutside) {
  const Bound bound = {.relative = 1e-6, .scale = 0, .text = ""};
  const Comparison flushed =
      JudgeByStatistics(WithStatistics({0x1p-130f, 0x1p-128f}), WithStatistics({0, 0}), bound);
  EXPECT_EQ(flushed.verdict.statistics, Answer::kSame);
  const Comparison larger =
      JudgeByStatistics(WithStatistics({0x1p-120f, 0x1p-128f}), WithStatistics({0, 0}), bound);
  EXPECT_EQ(larger.verdict.statistics, Answer::kDiffers);
}

TEST(JudgeStatistics, WithoutABoundTheyAreEqual) {
  const Comparison comparison =
      JudgeByStatistics(WithStatistics({1, 2, 3, 4}), WithStatistics({1, 2.5f, 2.5f, 4}), {});
  EXPECT_EQ(comparison.verdict.tolerance, Answer::kDiffers);
}

// Of another tool: three numbers computed in float32, or a checksum.
TEST(JudgeStatistics, WhatIsKnownOnBothSidesIsCompared) {
  const Bound bound = {.relative = 1e-6, .scale = 0, .text = ""};
  const io::Record ours = WithStatistics({1, -2, 3, 2});
  const Summary known = SummaryOf(*ours.statistics);
  Summary theirs = {
      .min = -2, .max = 3, .mean = 1.0000001, .nan = 0, .counts = false, .precision = 0x1p-16};
  const auto judge = [&](const Summary& a, const Summary& b) {
    const io::Record record = Tensor(4);
    Comparison comparison = JudgeMeta(record, record);
    JudgeStatistics({record, a}, {record, b}, bound, nullptr, &comparison);
    return comparison;
  };
  EXPECT_EQ(judge(known, theirs).verdict.statistics, Answer::kSame);
  EXPECT_EQ(judge(known, theirs).verdict.bitwise, Answer::kNotJudged);
  theirs.mean = 1.001;
  EXPECT_EQ(judge(known, theirs).verdict.tolerance, Answer::kDiffers);
  theirs.nan = 1;
  EXPECT_EQ(judge(known, theirs).verdict.special, Answer::kDiffers);
  // "Some" against a count.
  Summary two = known;
  two.nan = 2;
  theirs.mean = 1;
  EXPECT_EQ(judge(two, theirs).verdict.special, Answer::kNotJudged);

  const Summary one = {.checksum = "1", .counts = false},
                other = {.checksum = "2", .counts = false};
  EXPECT_EQ(judge(one, one).verdict.statistics, Answer::kSame);
  const Comparison differs = judge(one, other);
  EXPECT_EQ(differs.verdict.bitwise, Answer::kDiffers);
  EXPECT_TRUE(differs.verdict.Unproven());
  EXPECT_THAT(differs.notes, Contains(HasSubstr("bits differ where statistics agree")));
  // Whichever side has more.
  Summary both = known;
  both.checksum = "1";
  for (const auto& [left, right] : {std::pair(both, other), std::pair(other, both)}) {
    EXPECT_TRUE(judge(left, right).verdict.Unproven());
    EXPECT_EQ(judge(left, right).verdict.statistics, Answer::kNotJudged);
  }
  // Nothing in common.
  EXPECT_FALSE(judge(one, known).verdict.Judged());
  EXPECT_EQ(judge(one, known).evidence, Evidence::kMeta);
}

// The other way of the proof: values within the bound never have statistics that it rules out.
TEST(JudgeStatistics, WhatIsWithinTheBoundIsNeverOutside) {
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> share(-1, 1);
  int outside = 0;
  for (int round = 0; round < 4000; ++round) {
    const double relative = std::ldexp(1, -static_cast<int>(random() % 20));
    const double scale = random() % 2 == 0 ? 0 : std::ldexp(1, -static_cast<int>(random() % 12));
    const size_t n = 1 + random() % 40;
    const double shift = random() % 2 == 0 ? 0 : 10 * normal(random);
    std::vector<float> a, b, far;
    double squares = 0;
    for (size_t i = 0; i < n; ++i) {
      a.push_back(static_cast<float>(std::exp(2 * normal(random)) * share(random) + shift));
      squares += double{a.back()} * a.back();
    }
    // Each as far away as the bound lets it be, half of the rounds all on one side.
    const double absolute =
        scale * std::sqrt(squares / static_cast<double>(n)) / (1 + scale + relative);
    const bool one_side = random() % 2 == 0;
    for (const float x : a) {
      const double to = one_side ? 0.999 : share(random);
      b.push_back(static_cast<float>(
          x + to * (relative * std::abs(x) / (1 + relative) + absolute / (1 + relative))));
      far.push_back(static_cast<float>(x + 40 * (relative + scale) * std::abs(x) + 1));
    }
    const Bound bound = {.relative = relative + 1e-6, .scale = scale, .text = ""};
    const Comparison near = JudgeByStatistics(WithStatistics(a), WithStatistics(b), bound);
    ASSERT_EQ(near.verdict.statistics, Answer::kSame)
        << round << ": " << relative << " " << scale << " " << near.notes.back();
    outside +=
        JudgeByStatistics(WithStatistics(a), WithStatistics(far), bound).verdict.statistics ==
        Answer::kDiffers;
  }
  EXPECT_GT(outside, 1000);
}

TEST(JudgeParts, NothingOnOneSideIsNotJudged) {
  const Comparison comparison = Judge(WithSample({1, 2, 3}), Tensor(1000));
  EXPECT_FALSE(comparison.verdict.Judged());
  EXPECT_THAT(comparison.notes, IsEmpty());
}

}  // namespace
}  // namespace tdump::compare
