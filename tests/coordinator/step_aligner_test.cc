#include "coordinator/step_aligner.h"

#include <gtest/gtest.h>

#include "tests/coordinator/print_steps.h"

namespace tdump::coordinator {

namespace {

constexpr int64_t kMs = 1'000'000;
constexpr uint64_t kTrain = 1, kEval = 2, kOther = 3;
constexpr uint64_t kTrainOtherwise = 11;  // the same mode, other calls

StepReport Step(uint64_t local, uint64_t shape, int64_t began_ns = 0) {
  const StepMode mode = shape % 10 == kEval    ? StepMode::kEval
                        : shape % 10 == kOther ? StepMode::kExplicit
                                               : StepMode::kTrain;
  return {local, shape, began_ns, mode};
}

// Feeds whole histories: shapes and begin times in ms, from step 0.
struct History {
  std::vector<uint64_t> shapes;
  std::vector<int64_t> began_ms;
};

std::vector<ExtraStep> Align(StepAligner* aligner, const std::vector<History>& ranks) {
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (size_t i = 0; i < ranks[rank].shapes.size(); ++i) {
      const int64_t began = i < ranks[rank].began_ms.size() ? ranks[rank].began_ms[i] : 0;
      aligner->Report(static_cast<int32_t>(rank), Step(i, ranks[rank].shapes[i], began * kMs), 0);
    }
  }
  return aligner->Advance(0).extras;
}

using Extras = std::vector<ExtraStep>;

TEST(StepAligner, EqualStepsAreSettledInOrder) {
  StepAligner aligner(3, {});
  EXPECT_EQ(Align(&aligner, {{{1, 2, 1}, {}}, {{1, 2, 1}, {}}, {{1, 2}, {}}}), Extras{});
  EXPECT_EQ(aligner.columns(), 2u);
}

TEST(StepAligner, AStepInAnotherModeInTheMiddleIsExtra) {
  StepAligner aligner(4, {});
  const History usual{{kTrain, kTrain, kTrain, kTrain}, {}};
  const History more{{kTrain, kTrain, kEval, kTrain, kTrain}, {}};
  EXPECT_EQ(Align(&aligner, {usual, usual, more, usual}), (Extras{{2, 2, false}}));
  EXPECT_EQ(aligner.columns(), 4u);
}

TEST(StepAligner, OfTwoRanksTheOneWhoseNextStepFitsRanOneMore) {
  StepAligner aligner(2, {});
  // Rank 0 has the extra evaluation although its shape would win as the lower rank's.
  EXPECT_EQ(
      Align(&aligner, {{{kTrain, kEval, kTrain, kTrain}, {}}, {{kTrain, kTrain, kTrain}, {}}}),
      (Extras{{0, 1, false}}));
  EXPECT_EQ(aligner.columns(), 3u);
}

TEST(StepAligner, TwoExtraStepsInARow) {
  StepAligner aligner(3, {});
  const History usual{{kTrain, kTrain, kTrain}, {}};
  const History more{{kTrain, kEval, kEval, kTrain, kTrain}, {}};
  EXPECT_EQ(Align(&aligner, {usual, usual, more}), (Extras{{2, 1, false}, {2, 2, false}}));
  EXPECT_EQ(aligner.columns(), 3u);
}

TEST(StepAligner, AnExtraStepIsAwaitedUntilItsNextStepIsKnown) {
  StepAligner aligner(3, {});
  const History usual{{kTrain, kTrain}, {}};
  EXPECT_EQ(Align(&aligner, {usual, usual, {{kTrain, kEval}, {}}}), Extras{});
  EXPECT_EQ(aligner.columns(), 1u);
  aligner.Report(2, Step(2, kTrain), 1);
  EXPECT_EQ(aligner.Advance(1).extras, (Extras{{2, 1, false}}));
  EXPECT_EQ(aligner.columns(), 2u);
}

TEST(StepAligner, ARankThatDoesSomethingElseKeepsItsOwnOrder) {
  StepAligner aligner(3, {});
  const History usual{std::vector<uint64_t>(12, kTrain), {}};
  const History other{std::vector<uint64_t>(12, kOther), {}};
  EXPECT_EQ(Align(&aligner, {usual, other, usual}), Extras{});
  EXPECT_EQ(aligner.columns(), 12u);  // the first took a look ahead, the others none
}

// A layer is skipped, or a micro-batch run more: the same step, other calls.
TEST(StepAligner, OtherCallsInTheSameModeAreTheSameStep) {
  const History usual{std::vector<uint64_t>(6, kTrain), {}};
  const History other{{kTrain, kTrain, kTrainOtherwise, kTrain, kTrain, kTrain}, {}};
  const History all_other{{kTrain, kTrainOtherwise, 21, kTrainOtherwise, 31, kTrain}, {}};
  for (const auto& ranks : std::vector<std::vector<History>>{
           {usual, other}, {other, usual}, {usual, other, usual}, {usual, all_other}}) {
    StepAligner aligner(static_cast<int32_t>(ranks.size()), {});
    EXPECT_EQ(Align(&aligner, ranks), Extras{});
    EXPECT_EQ(aligner.columns(), 6u);
  }
}

TEST(StepAligner, OfARankThatRanMoreStepsOfOtherCallsAreExtra) {
  StepAligner aligner(2, {});
  aligner.TakeOutOtherShapes(1);
  const History usual{std::vector<uint64_t>(4, kTrain), {}};
  EXPECT_EQ(Align(&aligner, {usual, {{kTrain, kTrain, kTrainOtherwise, kTrain, kTrain}, {}}}),
            (Extras{{1, 2, false}}));
  EXPECT_EQ(aligner.columns(), 4u);
}

TEST(StepAligner, WhatKeepsItsOrderRanNoExtraStep) {
  StepAligner aligner(3, {});
  aligner.KeepOrder(1);
  const History usual{{kTrain, kTrain, kTrain, kTrain}, {}};
  EXPECT_EQ(Align(&aligner, {usual, {{kTrain, kEval, kTrain, kTrain}, {}}, usual}), Extras{});
  EXPECT_EQ(aligner.columns(), 4u);
}

// Rank 0 evaluates, longer than anything is looked ahead, while the other one waits in a collective
// of its next training step, which it reports late.
TEST(StepAligner, OfTwoRanksTheOneThatComesToTheOthersModeRanMore) {
  constexpr uint64_t kEvaluations = 20;
  StepAligner aligner(2, {});
  Extras extras, expected;
  const auto report = [&](int32_t rank, const StepReport& step) {
    aligner.Report(rank, step, 0);
    for (const ExtraStep& extra : aligner.Advance(0).extras) extras.push_back(extra);
  };
  report(0, Step(0, kTrain));
  report(1, Step(0, kTrain));
  for (uint64_t i = 1; i <= kEvaluations; ++i) {
    report(0, Step(i, kEval));
    expected.push_back({0, i, false});
  }
  report(1, Step(1, kTrain));
  EXPECT_EQ(aligner.columns(), 1u);
  report(0, Step(kEvaluations + 1, kTrain));
  EXPECT_EQ(extras, expected);
  EXPECT_EQ(aligner.columns(), 2u);
}

// One rank is in the wrong mode for a step, and meets the mode of the others later.
TEST(StepAligner, AStepInTheWrongModeIsNoExtraStep) {
  StepAligner aligner(3, {});
  const History usual{{kTrain, kEval, kTrain, kTrain, kEval, kTrain}, {}};
  const History wrong{{kTrain, kTrain, kTrain, kTrain, kEval, kTrain}, {}};
  EXPECT_EQ(Align(&aligner, {usual, wrong, usual}), Extras{});
  EXPECT_EQ(aligner.columns(), 6u);
}

TEST(StepAligner, ASurplusStepBeforeLeavingIsExtra) {
  StepAligner aligner(3, {});
  aligner.Leave(1);
  const History usual{{kTrain, kTrain, kTrain}, {}};
  EXPECT_EQ(Align(&aligner, {usual, {{kTrain, kEval}, {}}, usual}), (Extras{{1, 1, false}}));
}

// Steps of 100 ms in lockstep; rank 2 begins its step 3 when the others are still in step 2, and
// its step 4 together with their step 3.
TEST(StepAligner, InLockstepTheBeginTimesTellAnExtraStepOfTheSameShape) {
  StepAligner aligner(4, {.by_time = true});
  const History usual{{1, 1, 1, 1, 1, 1}, {0, 100, 200, 400, 500, 600}};
  const History more{{1, 1, 1, 1, 1, 1, 1}, {2, 101, 203, 302, 401, 502, 600}};
  EXPECT_EQ(Align(&aligner, {usual, usual, more, usual}), (Extras{{2, 3, true}}));
  EXPECT_EQ(aligner.columns(), 6u);
}

// Rank 1 is held up before its step 3; rank 0 waits for it within the step. Steps take 5 ms.
TEST(StepAligner, ARankThatIsHeldUpMakesTheOtherRunNoExtraStep) {
  for (const int64_t late : {50, 200, 1000}) {
    StepAligner aligner(2, {.by_time = true});
    const History waits{std::vector<uint64_t>(6, 1), {0, 5, 10, 15, 20 + late, 25 + late}};
    const History held_up{std::vector<uint64_t>(6, 1), {0, 5, 10, 15 + late, 20 + late, 25 + late}};
    EXPECT_EQ(Align(&aligner, {waits, held_up}), Extras{});
    EXPECT_EQ(aligner.columns(), 6u);
  }
}

TEST(StepAligner, AConstantOffsetOfAClockIsNoExtraStep) {
  StepAligner aligner(3, {.by_time = true});
  const History usual{{1, 1, 1, 1, 1}, {0, 100, 200, 300, 400}};
  const History early{{1, 1, 1, 1, 1}, {-5000, -4900, -4800, -4700, -4600}};
  EXPECT_EQ(Align(&aligner, {usual, early, usual}), Extras{});
  EXPECT_EQ(aligner.columns(), 5u);
}

TEST(StepAligner, WithoutLockstepTimesDecideNothing) {
  StepAligner aligner(4, {});
  const History usual{{1, 1, 1, 1, 1, 1}, {0, 100, 200, 400, 500, 600}};
  const History more{{1, 1, 1, 1, 1, 1, 1}, {2, 101, 203, 302, 401, 502, 600}};
  EXPECT_EQ(Align(&aligner, {usual, usual, more, usual}), Extras{});
}

TEST(StepAligner, ASlowRankIsNoExtraStep) {
  StepAligner aligner(3, {.by_time = true});
  const History usual{{1, 1, 1, 1, 1}, {0, 100, 200, 300, 400}};
  const History late{{1, 1, 1, 1, 1}, {0, 100, 200, 380, 400}};
  EXPECT_EQ(Align(&aligner, {usual, late, usual}), Extras{});
}

TEST(StepAligner, ASilentRankIsLostAndComesBack) {
  StepAligner aligner(2, {.silence_ns = 10});
  aligner.Report(0, {0, 1, 0}, 0);
  EXPECT_TRUE(aligner.Advance(5).lost.empty());
  EXPECT_EQ(aligner.columns(), 0u);
  EXPECT_EQ(aligner.Advance(20).lost, std::vector<int32_t>{1});
  EXPECT_EQ(aligner.columns(), 1u);
  aligner.Report(0, {1, 1, 0}, 21);
  aligner.Advance(21);
  EXPECT_EQ(aligner.columns(), 2u);
  // Steps 0 and 1 were settled without it; in step 2 it is awaited again.
  for (uint64_t local = 0; local < 2; ++local) aligner.Report(1, {local, 1, 0}, 22);
  aligner.Report(0, {2, 1, 0}, 23);
  aligner.Advance(23);
  EXPECT_EQ(aligner.columns(), 2u);
  aligner.Report(1, {2, 1, 0}, 24);
  aligner.Advance(24);
  EXPECT_EQ(aligner.columns(), 3u);
}

TEST(StepAligner, ALeaverIsNotAwaited) {
  StepAligner aligner(2, {});
  aligner.Report(0, {0, 1, 0}, 0);
  aligner.Report(0, {1, 1, 0}, 0);
  aligner.Report(1, {0, 1, 0}, 0);
  aligner.Leave(1);
  aligner.Advance(0);
  EXPECT_EQ(aligner.columns(), 2u);
}

TEST(StepAligner, ContinuesWhereAnotherStopped) {
  StepAligner aligner(2, {});
  aligner.ContinueFrom(5, {0, 1});  // rank 1 had an extra step: its step 6 is global step 5
  aligner.Report(0, {5, 1, 0}, 0);
  aligner.Report(1, {6, 1, 0}, 0);
  aligner.Advance(0);
  EXPECT_EQ(aligner.columns(), 6u);
}

TEST(StepAligner, LostReportsAreSkipped) {
  StepAligner aligner(2, {});
  for (int32_t rank = 0; rank < 2; ++rank) aligner.Report(rank, {1000, 1, 0}, 0);
  aligner.Advance(0);
  EXPECT_EQ(aligner.columns(), 1001u);
}

TEST(StepAligner, NumbersAbove2To53) {
  const uint64_t big = (uint64_t{1} << 53) + 1;
  StepAligner aligner(2, {});
  for (int32_t rank = 0; rank < 2; ++rank) aligner.Report(rank, {big, 1, 0}, 0);
  aligner.Advance(0);
  EXPECT_EQ(aligner.columns(), big + 1);
}

}  // namespace
}  // namespace tdump::coordinator
