// Which steps are judged alone where weights part on the way.
#include "compare/later_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

using testing::HasSubstr;
using testing::Not;

const Tensor kInput = Vector<float>("float32", {1, 2});
const Tensor kGood = Vector<float>("float32", {0.5, -0.25, 0.75, 1});
const Tensor kSteps = Vector<float>("float32", {0.501, -0.251, 0.751, 0.999});
const Tensor kOneFar = Vector<float>("float32", {0.5, -0.25, 1.25, 1});

struct Case {
  Tensor weight = kSteps;  // of B, from step `from` on
  uint64_t from = 2;
  uint64_t first_step = 0;            // of B
  bool first_output_differs = false;  // at the first step
  std::string boundary = "optimizer (AdamW)";
  Tensor input = kInput;  // of the model
};

FakeRun Trained(const Case& of, bool is_b) {
  FakeRun run(1);
  run.identity(0)->boundary = of.boundary;
  for (uint64_t step = 0; step < 3; ++step) {
    PassBuilder pass = run.Pass(0, step + (is_b ? of.first_step : 0));
    const bool other = is_b && step >= of.from;
    const Tensor& weight = other ? of.weight : kGood;
    pass.Param("fc", "weight", weight);
    pass.last()->payload = weight.record.payload;
    pass.Begin(".", "", {{"0", is_b ? of.input : kInput}});
    pass.Module("fc", kInput, other || (is_b && of.first_output_differs) ? kOneFar : kGood);
  }
  return run;
}

std::string TextOf(const Case& of, DiffOptions options = {}) {
  options.pairing.step_shift = static_cast<int64_t>(of.first_step);
  return Joined(Text(DiffOk(Trained(of, false), Trained(of, true), options)));
}

TEST(LaterSteps, StepsBeforeWeightsPartAreJudgedAlone) {
  EXPECT_THAT(TextOf({}), HasSubstr("note steps 0-1 agree, and from then on weights had moved "
                                    "apart; if that is rounding, judge them alone: --steps 0-1"));
  EXPECT_THAT(TextOf({.from = 1}), HasSubstr("note step 0 agrees, and from then on weights had "
                                             "moved apart; if that is rounding, judge it alone: "
                                             "--steps 0"));
  EXPECT_THAT(TextOf({.first_step = 10}), HasSubstr("steps 10-11 agree, "));
  EXPECT_THAT(TextOf({.first_step = 10}), HasSubstr("alone: --steps 0-1=10-11"));
}

TEST(LaterSteps, WhatRoundingDoesNotMakeHidesNothing) {
  for (const Case& of : {Case{.weight = kOneFar}, Case{.boundary = "optimizer (SGD)"},
                         Case{.from = 0}, Case{.first_output_differs = true}})
    EXPECT_THAT(TextOf(of), Not(HasSubstr("judge ")));
}

TEST(LaterSteps, OfOtherInputsWeightsPartToo) {
  const Tensor near = Vector<float>("float32", {1, 2.0f + 0x1p-22f});  // one rounding away
  EXPECT_THAT(TextOf({.weight = kOneFar, .boundary = "optimizer (SGD)", .input = near}),
              HasSubstr("judge them alone: --steps 0-1"));
}

TEST(LaterSteps, InAnotherPrecisionWeightsPartWhateverTheOptimizer) {
  DiffOptions options;
  options.pass.compute = *ParsePrecision("bf16");
  const Case of = {.weight = kOneFar, .boundary = "optimizer (SGD)"};
  EXPECT_THAT(TextOf(of, options), HasSubstr("judge them alone: --steps 0-1"));
  EXPECT_THAT(TextOf(of, options),
              HasSubstr("look at what updates it; where B computes in another precision, the "
                        "rounding of its gradients parts weights from update to update"));
}

}  // namespace
}  // namespace tdump::compare
