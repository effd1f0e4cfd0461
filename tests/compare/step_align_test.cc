#include "compare/step_align.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compare/diff.h"
#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

const Tensor kValue = Vector<float>("float32", {1, 2});
const Tensor kOther = Vector<float>("float32", {1, 3});

// A model that was given tokens and, as in every step, positions.
void Step(FakeRun* run, int32_t rank, uint64_t step, const Tensor& tokens,
          const Tensor& out = kValue) {
  PassBuilder pass = run->Pass(rank, step);
  const uint64_t root = pass.Begin(
      ".", "", {{"input_ids", tokens}, {"position_ids", Vector<int64_t>("int64", {0, 1})}});
  pass.Module("fc", kValue, out);
  pass.End(root, ".", "", {});
}

Tensor Tokens(int64_t first) { return Vector<int64_t>("int64", {first, first + 1}); }

FakeRun RunOf(const std::vector<std::pair<uint64_t, int64_t>>& steps) {
  FakeRun run(1);
  for (const auto& [step, tokens] : steps) Step(&run, 0, step, Tokens(tokens));
  return run;
}

DiffReport Aligned(const FakeRun& a, const FakeRun& b) {
  DiffOptions options;
  options.pairing.align_steps = true;
  const auto report = Diff(a.side(), b.side(), options);
  EXPECT_TRUE(report.ok()) << report.status().message();
  return report.ok() ? *report : DiffReport{};
}

TEST(AlignSteps, ByWhatTheyHaveInCommonInOrder) {
  const std::vector<StepInputs> a = {{0, {"mask", "x"}}, {1, {"mask", "y"}}, {2, {"mask", "z"}}};
  const std::vector<StepInputs> b = {{5, {"mask", "w"}}, {6, {"mask", "x"}}, {7, {"mask", "z"}}};
  EXPECT_THAT(AlignSteps(a, b), ElementsAre(Pair(0, 6), Pair(2, 7)));
  EXPECT_THAT(AlignSteps(b, a), ElementsAre(Pair(6, 0), Pair(7, 2)));
  EXPECT_THAT(AlignSteps(a, {{9, {"mask"}}}), IsEmpty());
  EXPECT_THAT(AlignSteps(a, {}), IsEmpty());
}

TEST(AlignSteps, StepsThatNothingTellsApartFollowEachOther) {
  const std::vector<StepInputs> a = {{0, {"x"}}, {1, {"x"}}}, b = {{4, {"x"}}, {5, {"x"}}};
  EXPECT_THAT(AlignSteps(a, b), ElementsAre(Pair(0, 4), Pair(1, 5)));
  EXPECT_THAT(AlignSteps(a, b, /*by_order=*/false), IsEmpty());
}

TEST(StepsAuto, StepsOfOtherNumbersArePaired) {
  const DiffReport report =
      Aligned(RunOf({{0, 10}, {1, 20}, {2, 30}}), RunOf({{3, 99}, {4, 10}, {5, 20}, {6, 30}}));
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_THAT(report.steps, ElementsAre(Pair(0, 4), Pair(1, 5), Pair(2, 6)));
  EXPECT_THAT(report.notes, ElementsAre("no step of A was given the inputs of step 3 of B"));
  EXPECT_THAT(Text(report), HasSubstr("\nsteps     B = A + 4, by equal integer inputs\n"));
}

// Nor do steps of one training that begin elsewhere.
TEST(StepsAuto, OneBatchForAllStepsAlignsNothingByItself) {
  const FakeRun a = RunOf({{0, 10}, {1, 10}, {2, 10}}), b = RunOf({{4, 10}, {5, 10}, {6, 10}});
  EXPECT_THAT(DiffOk(a, b).steps, IsEmpty());
  EXPECT_THAT(Aligned(a, b).steps, ElementsAre(Pair(0, 4), Pair(1, 5), Pair(2, 6)));
}

TEST(StepsAuto, ValuesCountWhateverDtypeAndShape) {
  FakeRun a(1), b(1);
  Step(&a, 0, 0, MakeTensor<int64_t>("int64", {1, 2}, {7, 8}));
  Step(&b, 0, 3, MakeTensor<int32_t>("int32", {2}, {7, 8}));
  const auto of_a = InputsOf(a.side(), {}), of_b = InputsOf(b.side(), {});
  EXPECT_THAT(AlignSteps(of_a, of_b), ElementsAre(Pair(0, 3)));
}

TEST(StepsAuto, ABatchThatRanksShareIsTheirPartsInOrder) {
  FakeRun a(1), b(4);
  Step(&a, 0, 0, MakeTensor<int64_t>("int64", {2, 2}, {1, 2, 3, 4}));
  for (const int32_t rank : {0, 1, 2, 3})  // two data-parallel pairs of replicas
    Step(&b, rank, 8,
         MakeTensor<int64_t>("int64", {1, 2},
                             rank < 2 ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{3, 4}));
  EXPECT_THAT(AlignSteps(InputsOf(a.side(), {}), InputsOf(b.side(), {})), ElementsAre(Pair(0, 8)));
}

TEST(StepsAuto, HashesAreEnough) {
  FakeRun a = RunOf({{0, 10}, {1, 20}}), b(1);
  PassBuilder pass = b.Pass(0, 7);
  pass.Begin(".", "", {{"input_ids", Tokens(20)}});
  pass.last()->payload.reset();
  EXPECT_THAT(AlignSteps(InputsOf(a.side(), {}), InputsOf(b.side(), {})), ElementsAre(Pair(1, 7)));
}

TEST(StepsAuto, WithoutTheModelsOwnInputsThoseOfItsModulesTell) {
  FakeRun a(1), b(1);
  a.Pass(0, 0).Module("embedding", Tokens(4), kValue);
  b.Pass(0, 2).Module("embedding", Tokens(4), kValue);
  EXPECT_EQ(Aligned(a, b).overall, Overall::kSame);
}

TEST(StepsAuto, NothingInCommonIsAnErrorThatSaysWhatToDo) {
  const FakeRun a = RunOf({{0, 1}}), b = RunOf({{0, 5}});
  DiffOptions options;
  options.pairing.align_steps = true;
  EXPECT_THAT(Diff(a.side(), b.side(), options).status().message(),
              HasSubstr("no step of A was given the integer inputs of a step of B"));
}

// As of a job that was resumed.
TEST(StepsAuto, IsTheDefaultWhereNoNumberIsInCommon) {
  const FakeRun a = RunOf({{0, 10}, {1, 20}}), resumed = RunOf({{3, 10}, {4, 20}});
  const DiffReport report = DiffOk(a, resumed);
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_THAT(report.steps, ElementsAre(Pair(0, 3), Pair(1, 4)));
  EXPECT_THAT(Text(report), HasSubstr("\nsteps     B = A + 3, by equal integer inputs\n"));
  // The ranks of each side put together.
  FakeRun two(2);
  for (const int32_t rank : {0, 1}) {
    Step(&two, rank, 3, Tokens(10));
    Step(&two, rank, 4, Tokens(20));
  }
  EXPECT_THAT(DiffOk(a, two).steps, ElementsAre(Pair(0, 3), Pair(1, 4)));
  EXPECT_EQ(DiffOk(a, two).overall, Overall::kSame);
}

TEST(StepsAuto, NumbersOfTheUserAndNumbersInCommonHold) {
  const FakeRun a = RunOf({{0, 10}, {1, 20}}), later = RunOf({{3, 10}, {4, 20}});
  DiffOptions named;
  named.pairing.steps = *Spec::Parse("0-9");
  EXPECT_EQ(DiffOk(a, later, named).overall, Overall::kNotComparable);
  EXPECT_THAT(DiffOk(a, later, named).why_not, HasSubstr("try --steps 0-1=3-4"));
  // Nothing says which step is which.
  const DiffReport other = DiffOk(a, RunOf({{3, 30}, {4, 40}}));
  EXPECT_EQ(other.overall, Overall::kNotComparable);
  EXPECT_THAT(other.why_not, HasSubstr("no step in common"));
  // One number is: it is taken for the same step, and what to try is said.
  const DiffReport overlap = DiffOk(a, RunOf({{1, 10}, {2, 20}}));
  EXPECT_EQ(overlap.overall, Overall::kDiffers);
  EXPECT_THAT(overlap.notes, Contains("step 1 of B was given the integer inputs of step 0 of A: "
                                      "--steps auto compares steps that were given the same"));
  EXPECT_THAT(DiffOk(a, RunOf({{0, 10}, {1, 30}})).notes, IsEmpty());
}

TEST(StepsAuto, WhereTokensPartJudgingStops) {
  const DiffReport report =
      Aligned(RunOf({{0, 10}, {1, 20}, {2, 30}}), RunOf({{4, 10}, {5, 20}, {6, 31}}));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_TRUE(report.inputs.judging_stopped);
  EXPECT_EQ(report.counts.failing, 0u);
  EXPECT_THAT(Text(report),
              HasSubstr("DIFFERS  inputs differ: token ids from step 6 on, steps 4-5 judged"));
}

TEST(StepsAuto, ALongerRunIsNoDifference) {
  const DiffReport report = Aligned(RunOf({{0, 10}}), RunOf({{4, 10}, {5, 20}, {6, 30}}));
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_THAT(report.notes, Contains("step 5-6 of B lies behind the last one that both were given "
                                     "the inputs of, and is not compared"));
}

// As of batches that were shuffled otherwise.
TEST(StepsAuto, StepsInAnotherOrderHaveNoPartnerAndAreToldSo) {
  const DiffReport report =
      Aligned(RunOf({{0, 10}, {1, 20}, {2, 30}}), RunOf({{0, 30}, {1, 20}, {2, 10}}));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_THAT(report.steps, ElementsAre(Pair(2, 0)));
  EXPECT_THAT(report.notes,
              ElementsAre("step 0-1 of A was given the inputs of a step of B in another order, and "
                          "is not paired",
                          "step 1-2 of B was given the inputs of a step of A in another order, and "
                          "is not paired"));
  ASSERT_EQ(report.unpaired.size(), 4u);
  EXPECT_EQ(report.unpaired[0].side, 'A');
  EXPECT_EQ(report.unpaired[0].step, 0u);
  EXPECT_EQ(report.unpaired[0].why, "in another order: step 2 of B was given the same inputs");
  EXPECT_EQ(report.unpaired[3].side, 'B');
  EXPECT_EQ(report.unpaired[3].step, 2u);
  // Exchanged in the middle, and the two ends.
  const FakeRun four = RunOf({{0, 10}, {1, 20}, {2, 30}, {3, 40}});
  const DiffReport middle = Aligned(four, RunOf({{0, 10}, {1, 30}, {2, 20}, {3, 40}}));
  EXPECT_EQ(middle.overall, Overall::kDiffers);
  EXPECT_EQ(middle.unpaired.size(), 2u);
  const DiffReport ends = Aligned(four, RunOf({{0, 40}, {1, 20}, {2, 30}, {3, 10}}));
  EXPECT_EQ(ends.overall, Overall::kDiffers);
  EXPECT_EQ(ends.unpaired.size(), 4u);
}

// As of a job that was resumed after its first batch.
TEST(StepsAuto, ARunThatGoesRoundItsDataIsNoDifference) {
  const FakeRun a = RunOf({{0, 10}, {1, 20}, {2, 30}, {3, 40}});
  const FakeRun b = RunOf({{12, 30}, {13, 40}, {14, 10}, {15, 20}});
  const DiffReport report = Aligned(a, b);
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_THAT(report.steps, ElementsAre(Pair(2, 12), Pair(3, 13)));
  EXPECT_THAT(report.notes,
              ElementsAre("step 0-1 of A was given the inputs of a later step of B, as where a run "
                          "goes round its data, and is not paired"));
  const FakeRun short_a = RunOf({{0, 10}, {1, 20}, {2, 30}});
  const FakeRun short_b = RunOf({{11, 20}, {12, 30}, {13, 10}});
  EXPECT_EQ(DiffOk(short_a, short_b).overall, Overall::kSame);
  EXPECT_EQ(Aligned(short_b, short_a).overall, Overall::kSame);
  // Of two batches nobody can tell it from an exchange.
  const DiffReport two = Aligned(RunOf({{0, 10}, {1, 20}}), RunOf({{4, 20}, {5, 10}}));
  EXPECT_EQ(two.overall, Overall::kDiffers);
  // Those of the second round in another order are in another order.
  const DiffReport shuffled = Aligned(a, RunOf({{12, 30}, {13, 40}, {14, 20}, {15, 10}}));
  EXPECT_EQ(shuffled.overall, Overall::kDiffers);
  EXPECT_EQ(shuffled.unpaired.size(), 4u);
}

TEST(StepsAuto, AStepThatWasRepeatedIsToldSo) {
  const DiffReport report =
      Aligned(RunOf({{0, 10}, {1, 20}, {2, 30}}), RunOf({{4, 10}, {5, 10}, {6, 30}}));
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_THAT(report.notes, ElementsAre("no step of B was given the inputs of step 1 of A",
                                        "step 5 of B was given the inputs of a step of A that is "
                                        "compared with another one"));
  // A second round is no more than a longer run.
  EXPECT_THAT(Aligned(RunOf({{0, 10}, {1, 20}}), RunOf({{4, 10}, {5, 20}, {6, 10}, {7, 20}})).notes,
              IsEmpty());
}

TEST(TokenIds, WhereTheyPartInStepsOfOneNumberJudgingStopsToo) {
  FakeRun a(1), b(1);
  for (uint64_t step = 0; step < 4; ++step) {
    Step(&a, 0, step, Tokens(static_cast<int64_t>(step)));
    const bool parted = step >= 2;
    Step(&b, 0, step, Tokens(static_cast<int64_t>(parted ? 100 + step : step)),
         parted ? kOther : kValue);
  }
  const auto report = Diff(a.side(), b.side(), {});
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->overall, Overall::kDiffers);
  EXPECT_TRUE(report->inputs.judging_stopped);
  EXPECT_EQ(report->inputs.first_differing_step, 2u);
  EXPECT_EQ(report->inputs.passes_not_judged, 1u);
  EXPECT_EQ(report->counts.failing, 1u);  // the token ids of step 2: fc is other work
  EXPECT_EQ(report->origin->kind, OriginKind::kInputs);
  EXPECT_THAT(Text(*report),
              HasSubstr("DIFFERS  inputs differ: token ids from step 2 on, steps 0-1 judged"));
}

}  // namespace
}  // namespace tdump::compare
