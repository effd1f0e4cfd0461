#include "compare/parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

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
  const auto measure = [&](const io::Record& of_a, const io::Record& of_b, const Bound& bound) {
    return Measure({&of_a, FromMemory(x)}, {&of_b, FromMemory(y)}, bound);
  };
  const Bound bound = LocalBoundOf({.a = a.dtype, .b = b.dtype}).bound;
  const Status status = JudgeParts(a, b, bound, measure, &comparison);
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

TEST(JudgeParts, StatisticsProveDifferencesOnly) {
  const Comparison same = Judge(WithStatistics({1, 2, 3}), WithStatistics({3, 2, 1}));
  EXPECT_FALSE(same.verdict.Judged());
  EXPECT_THAT(same.notes, Contains(HasSubstr("agree")));
  const Comparison differs = Judge(WithStatistics({1, 2, 3}), WithStatistics({1, 2, 4}));
  EXPECT_EQ(differs.verdict.bitwise, Answer::kDiffers);
  EXPECT_EQ(differs.verdict.special, Answer::kNotJudged);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Judge(WithStatistics({1, 2, 3}), WithStatistics({1, 2, nan})).verdict.special,
            Answer::kDiffers);
}

TEST(JudgeParts, NothingOnOneSideIsNotJudged) {
  const Comparison comparison = Judge(WithStatistics({1, 2, 3}), Tensor(3));
  EXPECT_FALSE(comparison.verdict.Judged());
  EXPECT_THAT(comparison.notes, IsEmpty());
}

}  // namespace
}  // namespace tdump::compare
