// Weights that each side recorded at its first step alone, where those are other work.
#include "compare/first_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/compare/job_runs.h"

namespace tdump::compare {
namespace {

using testing::Contains;
using testing::HasSubstr;

Tensor Tokens(uint64_t work) {
  const auto first = static_cast<int64_t>(10 * work);
  return Vector<int64_t>("int64", {first, first + 7, first + 2});
}

struct Steps {
  uint64_t first = 0, count = 3;
  uint64_t work = 0;                    // that the first one does
  std::vector<uint64_t> weights = {0};  // positions of the steps that have a weight
  bool drops_module = false;            // in its second step
};

FakeRun Job(int32_t ranks, const Steps& steps) {
  FakeRun run(ranks);
  for (uint64_t i = 0; i < steps.count; ++i) {
    for (int32_t rank = 0; rank < ranks; ++rank) {
      PassBuilder pass = run.Pass(rank, steps.first + i);
      for (const uint64_t position : steps.weights)
        if (position == i) pass.Param("fc", "weight", kWhole);
      const uint64_t root = pass.Begin(".", "", {{"0", Tokens(steps.work + i)}});
      if (!steps.drops_module || i != 1) pass.Module("fc", kInput, kWhole);
      pass.End(root, ".", "", {{"", kWhole}});
    }
  }
  return run;
}

const Steps kFull = {.first = 10, .count = 5}, kResumed = {.work = 2};

TEST(FirstWeights, OfAJobThatWasResumedNoneMissesAPartner) {
  for (const int32_t ranks : {1, 2}) {
    const FakeRun full = Job(1, kFull), resumed = Job(ranks, kResumed);
    const DiffReport report = DiffOk(full, resumed), turned = DiffOk(resumed, full);
    EXPECT_EQ(report.overall, Overall::kSame) << Text(report);
    EXPECT_EQ(turned.overall, Overall::kSame) << Text(turned);
    EXPECT_THAT(report.notes, Contains(HasSubstr("weights were recorded at step 10 of A and step 0 "
                                                 "of B, which are other work")));
    EXPECT_THAT(turned.notes, Contains(HasSubstr("step 0 of A and step 10 of B")));
    EXPECT_THAT(Joined(Text(report)),
                HasSubstr("weights none compared: each side recorded them at other work"));
  }
}

TEST(FirstWeights, SoWhereTheUserSaysWhichStepsBelongTogether) {
  DiffOptions shifted, aligned;
  shifted.pairing.steps = *Spec::Parse("12-14");
  shifted.pairing.step_shift = -12;
  aligned.pairing.align_steps = true;
  for (const DiffOptions& options : {shifted, aligned}) {
    const DiffReport report = DiffOk(Job(1, kFull), Job(1, kResumed), options);
    EXPECT_EQ(report.overall, Overall::kSame) << Text(report);
    EXPECT_EQ(report.counts.unpaired_a + report.counts.unpaired_b, 0u);
  }
}

TEST(FirstWeights, WhatElseHasNoPartnerIsListed) {
  Steps faulty = kResumed;
  faulty.drops_module = true;
  const DiffReport report = DiffOk(Job(1, kFull), Job(1, faulty));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.unpaired_a, 2u);  // the input and the output of the module
  EXPECT_EQ(report.counts.unpaired_b, 0u);
}

TEST(FirstWeights, WeightsThatAreMissingWhereTheyWouldBeAreListed) {
  // Both at their first step.
  EXPECT_EQ(DiffOk(Job(1, {}), Job(1, {.weights = {}})).counts.unpaired_a, 1u);
  // Of a side that never records any, or a second time.
  Steps none = kFull, twice = kResumed, twice_full = kFull;
  none.weights = {};
  twice.weights = {0, 1};
  EXPECT_EQ(DiffOk(Job(1, none), Job(1, kResumed)).counts.unpaired_b, 1u);
  EXPECT_EQ(DiffOk(Job(1, kFull), Job(1, twice)).counts.unpaired_b, 1u);
  // A's third step is B's first.
  twice_full.weights = {0, 2};
  const DiffReport report = DiffOk(Job(1, twice_full), Job(1, kResumed));
  EXPECT_EQ(report.overall, Overall::kSame) << Text(report);
  EXPECT_EQ(report.parameters.pairs, 1u);
}

TEST(FirstWeights, AParameterThatTheOtherSideLacksThereIsListed) {
  FakeRun full = Job(1, {.first = 10, .count = 2});
  PassBuilder pass = full.Pass(0, 12);
  pass.Param("fc", "weight", kWhole);
  pass.End(pass.Begin(".", "", {{"0", Tokens(2)}}), ".", "", {{"", kWhole}});
  FakeRun resumed(1);
  PassBuilder first = resumed.Pass(0, 0);
  first.Param("fc", "weight", kWhole).Param("fc", "bias", kWhole);
  first.End(first.Begin(".", "", {{"0", Tokens(2)}}), ".", "", {{"", kWhole}});
  EXPECT_EQ(DiffOk(full, resumed).counts.unpaired_b, 1u);
}

}  // namespace
}  // namespace tdump::compare
