#include "compare/lost_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/compare/job_runs.h"

namespace tdump::compare {
namespace {

using testing::HasSubstr;
using testing::Not;

const Tensor kWrong = Matrix(2, 4, {1, 2, 3, 4, 5, 6, 7, 80});

// Two ranks that hold copies of a module's weight and bias, and of what the optimizer keeps of the
// weight, over two steps; one of them lacks some of that in step 1.
struct Lost {
  bool weight = false, bias = false, module = false;
  bool state = false, state_of_bias = false;
  bool step = false;              // all of it
  bool unfinished = false;        // its pass
  bool first_step_alone = false;  // weights were recorded at step 0 only, by both
  bool wrong = false;             // the weight of the other rank, in step 1
  int32_t rank = 1;               // that lacks them
  std::vector<std::string> places = {"", ""};

  static void Fill(PassBuilder pass, const Lost& without) {
    if (!without.module) pass.Module("fc", kInput, kInput);
    if (!without.weight) pass.Param("fc", "weight", without.wrong ? kWrong : kWhole);
    if (!without.bias) pass.Param("fc", "bias", kInput);
    if (!without.state) pass.Param("fc", "weight.exp_avg", kWhole);
    if (!without.state) pass.last()->key.role = Role::kState;
    if (!without.state_of_bias) pass.Param("fc", "bias.exp_avg", kInput);
    if (!without.state_of_bias) pass.last()->key.role = Role::kState;
  }
  static Lost Weights(bool lost) {
    return {.weight = lost, .bias = lost, .state = lost, .state_of_bias = lost};
  }
  FakeRun Whole() const {
    FakeRun run(1);
    for (const uint64_t step : {0, 1})
      Fill(run.Pass(0, step), Weights(first_step_alone && step == 1));
    return run;
  }
  FakeRun Of() const {
    FakeRun run(2);
    for (const int32_t at : {0, 1}) {
      run.Place(at, places[static_cast<size_t>(at)]);
      for (const uint64_t number : {0, 1}) {
        const bool later = number == 1, lacks = later && at == rank;
        if (lacks && step) continue;
        const bool none = later && first_step_alone;
        Fill(run.Pass(at, number), none    ? Weights(true)
                                   : lacks ? *this
                                           : Lost{.wrong = later && wrong});
      }
    }
    if (unfinished) run.MakePart(rank);
    return run;
  }
  DiffReport Diff(const DiffOptions& options = {}) const { return DiffOk(Whole(), Of(), options); }
};

TEST(LostCopies, AWeightThatARankHeldBeforeIsMissed) {
  for (const Lost& lost : {Lost{.weight = true}, Lost{.bias = true}, Lost{.state = true}}) {
    const DiffReport report = lost.Diff();
    EXPECT_EQ(report.overall, Overall::kDiffers);
    EXPECT_EQ(report.counts.failing, 0u);
    EXPECT_EQ(report.counts.unpaired_a, 1u);
    EXPECT_EQ(report.counts.unpaired_b, 0u);
  }
  EXPECT_THAT(
      Joined(Text(Lost{.weight = true, .state = true}.Diff())),
      HasSubstr("only in A all ranks, step 1: fc@param#weight and 1 more; rank 1 of B holds "
                "no copy, though it did before"));
  EXPECT_EQ(Lost{}.Diff().overall, Overall::kSame);
}

TEST(LostCopies, EitherSideMayLackThem) {
  const Lost lost{.weight = true};
  const DiffReport report = DiffOk(lost.Of(), lost.Whole());
  EXPECT_EQ(report.counts.unpaired_b, 1u);
  EXPECT_THAT(Joined(Text(report)),
              HasSubstr("only in B all ranks, step 1: fc@param#weight; rank 1 of A holds no copy"));
}

// The ranks of both put together.
DiffReport DiffJobs(const Lost& a, const Lost& b) {
  DiffOptions options;
  options.job = JobOptions{};
  return DiffOk(a.Of(), b.Of(), options);
}

TEST(LostCopies, WhatOneRankOfBothSidesLacksIsNoDifference) {
  Lost killed = Lost::Weights(true);
  killed.unfinished = killed.module = true;
  const std::vector<std::string> places = {"tp=0", "tp=1"};
  for (const Lost& lost : {Lost{.weight = true}, Lost{.bias = true, .state = true},
                           Lost{.step = true}, Lost{.bias = true, .places = places}, killed}) {
    const DiffReport report = DiffJobs(lost, lost);
    EXPECT_EQ(report.overall, Overall::kSame) << Text(report);
    EXPECT_EQ(report.counts.unpaired_a + report.counts.unpaired_b, 0u);
  }
  EXPECT_THAT(Joined(Text(DiffJobs({.weight = true}, {.weight = true}))),
              HasSubstr("what the same ranks of both sides lack, though they should hold it, is no "
                        "difference: first rank 1, fc@param#weight"));
}

TEST(LostCopies, WhatOneSideLacksBesidesIsMissed) {
  const DiffReport more = DiffJobs({.weight = true}, {.weight = true, .bias = true});
  EXPECT_EQ(more.overall, Overall::kDiffers);
  EXPECT_EQ(more.counts.unpaired_a, 1u);
  EXPECT_EQ(more.counts.unpaired_b, 0u);
  // Another rank of it.
  const DiffReport other = DiffJobs({.weight = true}, {.weight = true, .rank = 0});
  EXPECT_EQ(other.overall, Overall::kDiffers);
  EXPECT_EQ(other.counts.unpaired_a, 1u);
  EXPECT_EQ(other.counts.unpaired_b, 1u);
  // Ranks of these numbers that are at other places.
  const DiffReport moved = DiffJobs({.weight = true, .places = {"tp=0", "tp=1"}},
                                    {.weight = true, .places = {"tp=1", "tp=0"}});
  EXPECT_EQ(moved.counts.unpaired_a, 1u);
  EXPECT_EQ(moved.counts.unpaired_b, 1u);
  // One was killed, the other was not.
  const DiffReport killed = DiffJobs({.weight = true}, {.weight = true, .unfinished = true});
  EXPECT_EQ(killed.overall, Overall::kDiffers);
}

TEST(LostCopies, TheCopiesThatAreThereAreCompared) {
  const DiffReport report = DiffJobs({.bias = true}, {.bias = true, .wrong = true});
  EXPECT_EQ(report.parameters.differing_names, 1u);
  EXPECT_EQ(report.overall, Overall::kSame);  // what the operators return tells
}

TEST(LostCopies, OfAnUnfinishedPassEverythingHeldBeforeIsMissed) {
  Lost lost = Lost::Weights(true);
  lost.module = lost.unfinished = true;
  const DiffReport report = lost.Diff();
  EXPECT_EQ(report.counts.unpaired_a, 6u);  // an input and an output, two parameters, two states
  EXPECT_THAT(Joined(Text(report)), HasSubstr("rank 1 of B holds no copy: its pass is unfinished"));
  // Of a whole pass they may come and go with the data.
  EXPECT_EQ((Lost{.module = true}.Diff().overall), Overall::kSame);
}

TEST(LostCopies, AtTheOnlyStepOfAnUnfinishedPassTheModuleTells) {
  DiffOptions options;
  options.pairing.steps = *Spec::Parse("1");
  Lost lost = Lost::Weights(true);
  lost.unfinished = true;
  EXPECT_EQ(lost.Diff(options).counts.unpaired_a, 4u);
  lost.module = true;  // a stage that holds other layers
  EXPECT_EQ(lost.Diff(options).overall, Overall::kSame);
  lost.module = false;
  lost.places = {"pp=0", "pp=1"};
  EXPECT_EQ(lost.Diff(options).overall, Overall::kSame);
  lost.places = {"tp=0", "tp=1"};
  EXPECT_EQ(lost.Diff(options).counts.unpaired_a, 4u);
  // A sharded optimizer keeps less.
  EXPECT_EQ((Lost{.state = true, .unfinished = true}.Diff(options).overall), Overall::kSame);
}

TEST(LostCopies, AStepThatTheRankLacksIsToldByItsWeights) {
  EXPECT_THAT(
      Joined(Text(Lost{.step = true}.Diff())),
      HasSubstr("only in A all ranks, step 1: fc@param#weight and 3 more; rank 1 of B holds "
                "no copy: it has no step 1"));
}

TEST(LostCopies, WhatNoRankHoldsIsNotLost) {
  const DiffReport report = Lost{.first_step_alone = true}.Diff();
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.unpaired_a, 0u);
}

TEST(LostCopies, TheyMayBeAllowed) {
  DiffOptions options;
  options.allow_unpaired = {NameFilter(), Named("weight")};
  const Lost lost{.weight = true, .bias = true};
  const DiffReport report = lost.Diff(options);
  EXPECT_EQ(report.counts.unpaired_allowed, 1u);
  EXPECT_EQ(report.overall, Overall::kDiffers);  // for the bias
  EXPECT_EQ((Lost{.weight = true}.Diff(options).overall), Overall::kSame);
}

TEST(LostCopies, TheLineOfJsonNamesTheRank) {
  DiffOptions options;
  std::vector<std::string> lines;
  options.on_unpaired = [&](const Unpaired& unpaired) {
    lines.push_back(UnpairedToJson(unpaired));
  };
  (void)Lost{.weight = true, .bias = true}.Diff(options);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], HasSubstr(R"("type":"unpaired_copies")"));
  EXPECT_THAT(lines[0], HasSubstr(R"("lacking":1)"));
  EXPECT_THAT(lines[0], HasSubstr(R"("records":2)"));
}

}  // namespace
}  // namespace tdump::compare
