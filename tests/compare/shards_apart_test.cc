// Shards of which only hashes or statistics were kept, which lie alike on both sides.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/compare/job_runs.h"

namespace tdump::compare {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

Tensor Part(int part, float change = 0) {
  const auto first = static_cast<float>(10 * part);
  return Matrix(2, 2, {first + 1, first + 2, first + 3, first + 4 + change});
}

using Keep = Tensor (*)(Tensor);

Tensor AsItIs(Tensor tensor) { return tensor; }

// Of each rank what it holds of `fc`, by its parts and what is added to one number of them.
struct Held {
  std::vector<int> parts;
  std::vector<float> changes = std::vector<float>(parts.size());
  std::vector<std::string> places;
  std::vector<Keep> keeps = {};  // of each rank; empty: all keep alike
};

FakeRun Run(const Held& held, Keep keep_all) {
  FakeRun run(static_cast<int32_t>(held.parts.size()));
  for (size_t i = 0; i < held.parts.size(); ++i) {
    const auto rank = static_cast<int32_t>(i);
    run.Place(rank, held.places[i]);
    const Keep keep = held.keeps.empty() ? keep_all : held.keeps[i];
    run.Pass(rank, 0).Module("fc", kInput, keep(Part(held.parts[i], held.changes[i])));
  }
  return run;
}

DiffReport DiffOf(const Held& a, const Held& b, Keep keep_a, Keep keep_b,
                  const std::string& dims = "") {
  DiffOptions options = dims.empty() ? DiffOptions{} : WithDims("fc@output", dims);
  if (dims.empty()) options.job = JobOptions{};
  return DiffOk(Run(a, keep_a), Run(b, keep_b), options);
}

const std::vector<std::string> kFour = {"tp=0", "tp=1", "tp=2", "tp=3"};
const Held kParts = {.parts = {0, 1, 2, 3}, .places = kFour};

Held With(std::vector<float> changes) {
  return {.parts = {0, 1, 2, 3}, .changes = std::move(changes), .places = kFour};
}

TEST(ShardsApart, AHashThatDiffersNamesItsRank) {
  for (const char* dims : {"", "b h[tp]"}) {
    const Held other = With({0, 0, 5, 0});
    EXPECT_EQ(DiffOf(kParts, kParts, WithHashAlone, WithHashAlone, dims).overall, Overall::kSame);
    const DiffReport report = DiffOf(kParts, other, WithHashAlone, WithHashAlone, dims);
    ASSERT_EQ(report.failing.size(), 1u) << dims;
    EXPECT_EQ(report.failing[0].rank_a, 2);
    EXPECT_EQ(report.failing[0].rank_b, 2);
    ASSERT_TRUE(report.origin);
    EXPECT_EQ(report.origin->rank, 2);
    EXPECT_THAT(report.notes, Not(Contains(HasSubstr("shards of several"))));
  }
}

TEST(ShardsApart, SeveralAreNamedTogether) {
  const DiffReport report =
      DiffOf(kParts, With({0, 5, 0, 5}), WithHashAlone, WithHashAlone, "b h[tp]");
  ASSERT_EQ(report.failing.size(), 1u);
  EXPECT_EQ(report.failing[0].rank_b, kAllRanks);
  const std::string text = Joined(Text(report, 4, 4));
  EXPECT_THAT(text,
              HasSubstr("by hash, shards of several ranks differ (1 pair), first ranks 1,3 of "
                        "fc@output#"));
  EXPECT_THAT(text, HasSubstr("by hash, shards of several ranks differ: ranks 1,3"));
}

TEST(ShardsApart, ACopyOfAShardNamesItsRank) {
  const std::vector<std::string> places = {"tp=0,dp=0", "tp=1,dp=0", "tp=0,dp=1", "tp=1,dp=1"};
  const Held right = {.parts = {0, 1, 0, 1}, .places = places};
  const Held wrong = {.parts = {0, 1, 0, 1}, .changes = {0, 0, 0, 5}, .places = places};
  const DiffReport report = DiffOf(right, wrong, WithHashAlone, WithHashAlone, "b h[tp]");
  ASSERT_EQ(report.failing.size(), 1u);
  EXPECT_EQ(report.failing[0].rank_b, 3);
  // The first one differs from the other side, its copy does not.
  const Held first = {.parts = {0, 1, 0, 1}, .changes = {0, 5, 0, 0}, .places = places};
  const DiffReport other = DiffOf(right, first, WithHashAlone, WithHashAlone, "b h[tp]");
  ASSERT_EQ(other.failing.size(), 1u);
  EXPECT_EQ(other.failing[0].rank_b, 1);
}

TEST(ShardsApart, StatisticsOfShardsAreComparedRankByRank) {
  for (const char* dims : {"", "b h[tp]"}) {
    const DiffReport same = DiffOf(kParts, kParts, WithStatisticsAlone, WithStatisticsAlone, dims);
    EXPECT_EQ(same.overall, Overall::kSame) << Text(same);
    EXPECT_EQ(same.counts.not_judged, 0u);
    const DiffReport report =
        DiffOf(kParts, With({0, 0, 5, 0}), WithStatisticsAlone, WithStatisticsAlone, dims);
    EXPECT_EQ(report.overall, Overall::kDiffers) << dims;
    ASSERT_EQ(report.failing.size(), 1u);
    EXPECT_EQ(report.failing[0].rank_b, 2);
  }
}

TEST(ShardsApart, ValuesOfOneSideTellOfTheStatisticsOfTheOther) {
  for (const char* dims : {"", "b h[tp]"}) {
    const DiffReport same = DiffOf(kParts, kParts, AsItIs, WithStatisticsAlone, dims);
    EXPECT_EQ(same.overall, Overall::kSame) << Text(same);
    EXPECT_EQ(same.counts.not_judged, 0u);
    EXPECT_EQ(DiffOf(kParts, With({0, 5, 0, 0}), AsItIs, WithStatisticsAlone, dims).overall,
              Overall::kDiffers);
  }
}

// Of four copies on each side.
Held Copies(std::vector<float> changes, std::vector<Keep> keeps = {}) {
  return {.parts = {0, 0, 0, 0},
          .changes = std::move(changes),
          .places = kFour,
          .keeps = std::move(keeps)};
}

TEST(ShardsApart, StatisticsOfCopiesAreComparedRankByRank) {
  for (const char* dims : {"", "b h"}) {
    const Held right = Copies({0, 0, 0, 0}), wrong = Copies({0, 0, 5, 0});
    EXPECT_EQ(DiffOf(right, right, WithStatisticsAlone, WithStatisticsAlone, dims).overall,
              Overall::kSame);
    for (const bool is_a : {false, true}) {
      const DiffReport report = DiffOf(is_a ? wrong : right, is_a ? right : wrong,
                                       WithStatisticsAlone, WithStatisticsAlone, dims);
      EXPECT_EQ(report.overall, Overall::kDiffers) << dims << is_a;
      ASSERT_EQ(report.failing.size(), 1u);
      EXPECT_EQ(is_a ? report.failing[0].rank_a : report.failing[0].rank_b, 2);
    }
  }
}

// Copies that kept nothing in common may differ unseen: each is compared.
TEST(ShardsApart, CopiesOfWhichNothingTellsWhetherTheyAreEqualAreCompared) {
  const std::vector<Keep> mixed = {WithStatisticsAlone, WithHashAlone, WithStatisticsAlone,
                                   WithStatisticsAlone};
  const Held right = Copies({0, 0, 0, 0}, mixed);
  for (const char* dims : {"", "b h"}) {
    for (const int wrong_rank : {1, 2}) {
      Held wrong = right;
      wrong.changes[static_cast<size_t>(wrong_rank)] = 5;
      const DiffReport same = DiffOf(right, right, AsItIs, AsItIs, dims);
      EXPECT_EQ(same.overall, Overall::kSame) << Text(same);
      for (const bool is_a : {false, true}) {
        const DiffReport report =
            DiffOf(is_a ? wrong : right, is_a ? right : wrong, AsItIs, AsItIs, dims);
        EXPECT_EQ(report.overall, Overall::kDiffers) << dims << wrong_rank << is_a;
        ASSERT_EQ(report.failing.size(), 1u);
        EXPECT_EQ(report.failing[0].rank_b, wrong_rank);
      }
    }
  }
}

// Of one rank, which kept the values, and such copies.
TEST(ShardsApart, SuchCopiesAreComparedWithOneRankToo) {
  const Held one = {.parts = {0}, .places = {""}};
  const std::vector<Keep> mixed = {WithStatisticsAlone, WithHashAlone, WithStatisticsAlone,
                                   WithStatisticsAlone};
  for (const int wrong_rank : {-1, 1, 2}) {
    Held copies = Copies({0, 0, 0, 0}, mixed);
    if (wrong_rank >= 0) copies.changes[static_cast<size_t>(wrong_rank)] = 5;
    const DiffReport report = DiffOf(one, copies, AsItIs, AsItIs);
    EXPECT_EQ(report.overall, wrong_rank < 0 ? Overall::kSame : Overall::kDiffers)
        << Text(report, 1, 4);
    ASSERT_EQ(report.failing.size(), wrong_rank < 0 ? 0u : 1u);
    if (wrong_rank >= 0) {
      EXPECT_EQ(report.failing[0].rank_b, wrong_rank);
    }
  }
}

TEST(ShardsApart, OfOtherLayoutsStatisticsAreNotCompared) {
  const Held two = {.parts = {0, 1}, .places = {"tp=0", "tp=1"}};
  const Held whole = {.parts = {0}, .places = {""}};
  const auto as_whole = [](Tensor) {
    return WithStatisticsAlone(Matrix(2, 4, {1, 2, 11, 12, 3, 4, 13, 14}));
  };
  const DiffReport report = DiffOf(whole, two, as_whole, WithStatisticsAlone, "b h[tp]");
  EXPECT_EQ(report.counts.failing, 0u);
  EXPECT_EQ(report.counts.not_judged, 1u);
  EXPECT_THAT(Joined(Text(report, 1, 2)),
              HasSubstr("not compared, for statistics cannot be joined (1 pair)"));
}

}  // namespace
}  // namespace tdump::compare
