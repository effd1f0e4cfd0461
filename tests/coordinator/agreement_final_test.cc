#include "coordinator/agreement_final.h"

#include <gtest/gtest.h>

#include "tests/coordinator/print_steps.h"

namespace tdump::coordinator {

namespace {

constexpr int64_t kMs = 1'000'000;
using Extras = std::vector<ExtraStep>;
using Contents = std::vector<uint64_t>;  // of each step; 0: not recorded

StepHistory History(int32_t rank, const std::vector<int64_t>& began_ms, Contents contents = {}) {
  StepHistory history;
  history.rank = rank;
  for (size_t i = 0; i < began_ms.size(); ++i)
    history.reports.push_back({i, 1, began_ms[i] * kMs, StepMode::kForward});
  history.content = [contents](uint64_t local) {
    return local < contents.size() ? contents[local] : 0;
  };
  return history;
}

TEST(AlignHistories, SettlesEverythingOnceAllHaveEnded) {
  const FinalSteps steps = AlignHistories({History(0, {0, 1, 2}), History(1, {0, 1, 2})}, 2, false);
  EXPECT_EQ(steps.settled, 3u);
  EXPECT_EQ(steps.extras, Extras{});
}

TEST(AlignHistories, LeavesOpenWhatARunningRankMayStillReport) {
  std::vector<StepHistory> histories = {History(0, {0, 1, 2}), History(1, {0})};
  histories[1].ended = false;
  EXPECT_EQ(AlignHistories(histories, 2, false).settled, 1u);
}

TEST(AlignHistories, ARankOutsideTdumpIsNotAwaited) {
  EXPECT_EQ(AlignHistories({History(1, {0, 1})}, 2, false).settled, 2u);
}

TEST(AlignHistories, InLockstepTheTimesTell) {
  const auto usual = [](int32_t rank) { return History(rank, {0, 100, 200, 400, 500}); };
  const FinalSteps steps = AlignHistories(
      {usual(0), usual(1), History(2, {0, 100, 200, 300, 400, 500}), usual(3)}, 4, true);
  EXPECT_EQ(steps.extras, (Extras{{2, 3, true}}));
  EXPECT_EQ(steps.settled, 5u);
}

// The same times, but rank 2 ends with as many steps as the others: it was one ahead.
TEST(AlignHistories, ARankThatRanAheadRanNoExtraStep) {
  const auto usual = [](int32_t rank) { return History(rank, {0, 100, 200, 400, 500}); };
  const FinalSteps steps =
      AlignHistories({usual(0), usual(1), History(2, {0, 100, 200, 300, 400}), usual(3)}, 4, true);
  EXPECT_EQ(steps.extras, Extras{});
  EXPECT_EQ(steps.settled, 5u);
}

StepHistory InModes(int32_t rank, const std::vector<StepMode>& modes) {
  StepHistory history = History(rank, std::vector<int64_t>(modes.size(), 0));
  for (size_t i = 0; i < modes.size(); ++i) history.reports[i].mode = modes[i];
  return history;
}

constexpr StepMode kTrain = StepMode::kTrain, kEval = StepMode::kEval;

// One rank forgot to go back to training for a step.
TEST(AlignHistories, ARankThatRanNoMoreWasInAnotherMode) {
  const FinalSteps steps = AlignHistories(
      {InModes(0, {kTrain, kTrain, kTrain, kTrain}), InModes(1, {kTrain, kEval, kTrain, kTrain})},
      2, false);
  EXPECT_EQ(steps.extras, Extras{});
  EXPECT_EQ(steps.settled, 4u);
}

// Another rank ran more steps for reasons of its own, or another program.
TEST(AlignHistories, OneRankWithMoreStepsMakesNoEvaluationOfAnotherAStep) {
  const StepHistory evaluates = InModes(0, {kTrain, kEval, kTrain, kTrain});
  const StepHistory usual = InModes(1, {kTrain, kTrain, kTrain});
  for (const StepHistory& more : {InModes(2, {kTrain, kTrain, kTrain, kTrain}),
                                  InModes(2, std::vector<StepMode>(50, StepMode::kForward))}) {
    const FinalSteps steps = AlignHistories({evaluates, usual, more}, 3, false);
    EXPECT_EQ(steps.extras, (Extras{{0, 1, false}}));
  }
}

TEST(AlignHistories, OfARankThatWasCutShortTheModeTells) {
  StepHistory cut = InModes(1, {kTrain, kEval, kTrain});
  cut.finished = false;
  const FinalSteps steps =
      AlignHistories({InModes(0, {kTrain, kTrain, kTrain, kTrain}), cut}, 2, false);
  EXPECT_EQ(steps.extras, (Extras{{1, 1, false}}));
}

// The same mode throughout: two calls of rank 1 were other ones, and its steps are two more.
TEST(AlignHistories, OfARankThatRanMoreTheCallsTell) {
  StepHistory more = History(1, {0, 0, 0, 0, 0, 0});
  more.reports[1].shape = more.reports[3].shape = 7;
  const FinalSteps steps = AlignHistories({History(0, {0, 0, 0, 0}), more}, 2, false);
  EXPECT_EQ(steps.extras, (Extras{{1, 1, false}, {1, 3, false}}));
  EXPECT_TRUE(steps.uncertain.empty());
  EXPECT_EQ(steps.settled, 4u);
}

// Both are held up in turn: what the times say of both is dropped, as both ran as many steps.
TEST(AlignHistories, RanksOfAsManyStepsRanNoExtraStep) {
  const FinalSteps steps = AlignHistories(
      {History(0, {0, 100, 200, 300, 400, 500}), History(1, {0, 100, 200, 400, 500, 600})}, 2,
      true);
  EXPECT_EQ(steps.extras, Extras{});
  EXPECT_EQ(steps.settled, 6u);
}

// Nothing keeps the ranks together: after its extra step rank 2 is one behind for good, so times
// say nothing. What it computed does.
TEST(AlignHistories, WithoutLockstepTheContentTells) {
  const std::vector<int64_t> times = {0, 100, 200, 300}, longer = {0, 100, 200, 300, 400};
  const FinalSteps steps =
      AlignHistories({History(0, times, {5, 6, 7, 8}), History(1, times, {5, 6, 7, 8}),
                      History(2, longer, {5, 6, 99, 7, 8})},
                     3, false);
  EXPECT_EQ(steps.extras, (Extras{{2, 2, false}}));
  EXPECT_TRUE(steps.uncertain.empty());
}

TEST(AlignHistories, ASurplusOfOtherDataStaysUncertain) {
  const std::vector<int64_t> times = {0, 100, 200}, longer = {0, 100, 200, 300};
  const FinalSteps steps =
      AlignHistories({History(0, times, {1, 2, 3}), History(1, times, {4, 5, 6}),
                      History(2, longer, {7, 8, 9, 10})},
                     3, false);
  EXPECT_EQ(steps.extras, Extras{});
  EXPECT_EQ(steps.uncertain, std::vector<int32_t>{2});
  EXPECT_EQ(steps.usual, 3u);
}

TEST(AlignHistories, AnEarlyLeaverIsNoSurplusOfTheOthers) {
  const FinalSteps steps = AlignHistories(
      {History(0, {0, 1, 2, 3}), History(1, {0, 1, 2, 3}), History(2, {0, 1})}, 3, false);
  EXPECT_EQ(steps.extras, Extras{});
  EXPECT_TRUE(steps.uncertain.empty());
  EXPECT_EQ(steps.settled, 4u);
}

// Of two ranks one was killed after two steps; the other went on with the same data, or with
// others.
TEST(AlignHistories, OfTwoRanksTheOneThatDiedRanTooFew) {
  const Contents same = {1, 2, 3, 4, 5}, others = {1, 2, 1, 2, 1};
  for (const Contents& contents : {same, others}) {
    const FinalSteps steps = AlignHistories(
        {History(0, {0, 1, 2, 3, 4}, contents), History(1, {0, 1}, {1, 2})}, 2, false);
    EXPECT_EQ(steps.extras, Extras{});
    EXPECT_TRUE(steps.uncertain.empty());
    EXPECT_EQ(steps.settled, 5u);
  }
}

TEST(AlignHistories, GoesOnFromWhatTheRingStillHolds) {
  StepHistory zero = History(0, {}), one = History(1, {});
  for (uint64_t local = 5000; local < 5003; ++local) {
    zero.reports.push_back({local, 1, 0});
    one.reports.push_back({local + 2, 1, 0});
  }
  one.extras_before = 2;
  const FinalSteps steps = AlignHistories({zero, one}, 2, false);
  EXPECT_EQ(steps.settled, 5003u);
  EXPECT_EQ(steps.extras, Extras{});
}

}  // namespace
}  // namespace tdump::coordinator
