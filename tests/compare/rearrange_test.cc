#include "compare/rearrange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/compare/sources.h"

namespace tdump::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<Rearrangement> Plan(const Shape& shape, std::string_view from, std::string_view to,
                           const Shape& to_shape = {}, const SizeTable& sizes = {}) {
  return PlanRearrange(shape, *Dims::Parse(from), *Dims::Parse(to), to_shape, sizes);
}

// 0, 1, 2, ... of `shape`, rearranged.
std::vector<int32_t> Values(const Shape& shape, std::string_view from, std::string_view to,
                            const Shape& to_shape = {}, const SizeTable& sizes = {}) {
  const auto plan = Plan(shape, from, to, to_shape, sizes);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  if (!plan.ok()) return {};
  const auto source = Rearrange(Counting(shape), *plan);
  EXPECT_TRUE(source.ok()) << source.status().message();
  EXPECT_EQ((*source)->shape(), plan->shape);
  return IntsOf(*source);
}

TEST(Rearrange, SwapsDimensionsByName) {
  EXPECT_THAT(Values({2, 3, 1}, "s[cp] b h", "b s h"), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_TRUE(Plan({2, 3, 1}, "b s h", "b s h")->identity);
}

TEST(Rearrange, FusesAndTakesApart) {
  EXPECT_THAT(Values({2, 3}, "s b", "(b s)"), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(Values({6}, "(b s)", "s b", {3, 2}), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(Values({6}, "(b=2 s)", "s b"), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(Values({6}, "(b s)", "s b", {}, {{"s", {3}}}), ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(Rearrange, TokensAreBatchesOfSequences) {
  EXPECT_THAT(Values({3, 2, 1}, "s b h", "t h"), ElementsAre(0, 2, 4, 1, 3, 5));
  EXPECT_THAT(Values({6, 1}, "t h", "s b h", {3, 2, 1}), ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(Rearrange, UnnamedDimensionsPairInOrder) {
  EXPECT_THAT(Values({2, 2, 2}, "... h", "h ...", {2, 2, 2}), ElementsAre(0, 2, 4, 6, 1, 3, 5, 7));
}

TEST(Rearrange, SaysWhatDoesNotFit) {
  EXPECT_THAT(Plan({2, 3}, "b s", "b h").status().message(), HasSubstr("other dimensions"));
  EXPECT_THAT(Plan({2, 3}, "b s", "b s", {2, 4}).status().message(),
              HasSubstr("dimension s is 3 on one side and 4 on the other"));
  EXPECT_THAT(Plan({6}, "(b s)", "s b").status().message(), HasSubstr("is needed, as in b=2"));
  EXPECT_THAT(Plan({6}, "(b=4 s)", "s b").status().message(),
              HasSubstr("does not have parts of 4"));
}

TEST(UnitOfSource, IsWhereTheElementCameFrom) {
  const auto plan = Plan({2, 3}, "s b", "b s");
  EXPECT_EQ(UnitOfSource(*plan, 1), 3u);  // [b 0, s 1] is [s 1, b 0]
}

TEST(Crop, KeepsTheFirstOfEveryDimension) {
  EXPECT_THAT(IntsOf(*Crop(Counting({3, 3}), {2, 2})), ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(Crop(Counting({3}), {4}).status().message(), HasSubstr("[4] is no part of [3]"));
  EXPECT_FALSE(Crop(Counting({3}), {3, 1}).ok());
}

}  // namespace
}  // namespace tdump::compare
