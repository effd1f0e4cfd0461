#include "launch/tdump_run/estimate_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tdump::launch {
namespace {

constexpr uint64_t kMiB = 1 << 20;

// Two steps that were looked at and `later` more, of one MiB each.
RankEstimate Rank(uint64_t later, uint64_t first = kMiB, int32_t world = 1) {
  RankEstimate rank;
  rank.world = world;
  rank.steps.resize(2);
  rank.steps[0].work.file_bytes = first;
  rank.steps[1].work.file_bytes = kMiB;
  rank.later_steps = later;
  return rank;
}

filters::Config ConfigOf(std::string_view steps, uint64_t limit = 0) {
  filters::Config config = filters::DefaultConfig();
  config.steps = *Spec::Parse(steps);
  config.limit_bytes = limit;
  return config;
}

TEST(EstimateLimit, AutoIsATenthOfWhatIsFree) {
  EXPECT_EQ(LimitText({Rank(8)}, ConfigOf("0-9"), 1000 * kMiB),
            "auto: 100 MiB, 10 % of 1000 MiB free, at most 100 GiB");
  EXPECT_EQ(LimitText({Rank(8)}, ConfigOf("0-9"), std::nullopt),
            "auto: 10 % of the free space, at most 100 GiB");
}

TEST(EstimateLimit, NamesTheStepThatReachesIt) {
  // A sixteenth of a limit, at most 16 MiB, is for metadata: 9.0 MiB are left, and nine fit.
  EXPECT_EQ(LimitText({Rank(8)}, ConfigOf("0-9"), 96 * kMiB),
            "auto: 9.6 MiB, 10 % of 96 MiB free, at most 100 GiB: writing stops when that is "
            "nearly reached, in step 9");
  EXPECT_EQ(LimitText({Rank(8)}, ConfigOf("0-90:10", 3 * kMiB), std::nullopt),
            "3.0 MiB: writing stops when that is nearly reached, in step 20");
  EXPECT_EQ(LimitText({Rank(8, 4 * kMiB)}, ConfigOf("5-14", 3 * kMiB), std::nullopt),
            "3.0 MiB: writing stops when that is nearly reached, in step 5, the first one");
  EXPECT_EQ(LimitText({Rank(1)}, ConfigOf("0-2", 3 * kMiB), std::nullopt),
            "3.0 MiB: writing stops when that is nearly reached, in step 2");
  EXPECT_EQ(LimitText({Rank(1)}, ConfigOf("0-2", 4 * kMiB), std::nullopt), "4.0 MiB");
}

TEST(EstimateLimit, OfSeveralRanksEachHasItsShare) {
  const std::vector<RankEstimate> ranks = {Rank(8, kMiB, 2), Rank(8, 2 * kMiB, 2)};
  EXPECT_THAT(LimitText(ranks, ConfigOf("0-9", 11 * kMiB), std::nullopt),
              ::testing::EndsWith("in step 4"));  // of 5.2 MiB: 2 + 1 + 1 + 1, and one more
}

// The run divides by all ranks that are selected, though two of four were not seen.
TEST(EstimateLimit, RanksThatWereNotSeenHaveTheirShareToo) {
  const std::vector<RankEstimate> ranks = {Rank(8, kMiB, 4), Rank(8, kMiB, 4)};
  filters::Config config = ConfigOf("0-9", 16 * kMiB);
  EXPECT_THAT(LimitText(ranks, config, std::nullopt), ::testing::EndsWith("in step 3"));
  config.ranks = *Spec::Parse("0-1");
  EXPECT_THAT(LimitText(ranks, config, std::nullopt), ::testing::EndsWith("in step 7"));
}

TEST(EstimateLimit, WhatIsLeftToTheJobIsNotTaken) {
  EXPECT_THAT(LimitText({Rank(8)}, ConfigOf("0-9"), 3 * kMiB),
              ::testing::EndsWith(": nothing fits, 3.0 MiB free are less than the 64 MiB that are "
                                  "left to the job"));
  EXPECT_EQ(
      LimitText({Rank(8)}, ConfigOf("0-9", 50 * kMiB), 67 * kMiB),
      "50 MiB: the disk has only 3.0 MiB besides the 64 MiB left to the job: writing stops in "
      "step 3");
  EXPECT_EQ(LimitText({Rank(1)}, ConfigOf("0-2", 50 * kMiB), 67 * kMiB), "50 MiB");
}

TEST(EstimateLimit, LayoutAutoPacksWhatWouldBeTooManyFiles) {
  filters::Config config = ConfigOf("0-99999");
  const std::vector<RankEstimate> ranks = {Rank(99'998)};
  // 9,999 less 16 of the run, a manifest, a slot and two packed ones; one packed one more.
  EXPECT_EQ(FilesOfPasses(ranks, config), 9'980u);
  config.layout = filters::OutputLayout::kPass;
  EXPECT_EQ(FilesOfPasses(ranks, config), 100'000u);
  config.layout = filters::OutputLayout::kPacked;
  EXPECT_EQ(FilesOfPasses(ranks, config), 1u);
}

// Three ranks of the job, on two nodes.
std::vector<RankEstimate> RanksOfTwoNodes(int32_t world) {
  std::vector<RankEstimate> ranks(3, Rank(8, kMiB, world));
  ranks[0].host = ranks[1].host = "node0";
  ranks[2].host = "node1";
  return ranks;
}

TEST(EstimateLimit, NodeFilesAreOneANode) {
  const std::vector<RankEstimate> ranks = RanksOfTwoNodes(3);
  filters::Config config = ConfigOf("0-9");
  EXPECT_EQ(FilesOfPasses(ranks, config), 30u);
  config.layout = filters::OutputLayout::kNode;
  EXPECT_EQ(FilesOfPasses(ranks, config), 2u);
}

// From the number of ranks on at which a packed file of each would be too much, seen or not.
TEST(EstimateLimit, LayoutAutoIsNodeFilesWhereRanksAreTooMany) {
  EXPECT_EQ(FilesOfPasses(RanksOfTwoNodes(2'495), ConfigOf("0-9")), 3u);
  EXPECT_EQ(FilesOfPasses(RanksOfTwoNodes(2'496), ConfigOf("0-9")), 2u);
}

}  // namespace
}  // namespace tdump::launch
