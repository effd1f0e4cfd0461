// Where reports say that an optimizer may have made a difference of rounding.
#include "compare/optimizer_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

using testing::HasSubstr;
using testing::Not;

using Numbers = std::vector<float>;

const Numbers kStart = {0.5, -0.25, 0.75, 1};
const Numbers kSteps = {0.501, -0.251, 0.751, 0.999};  // off by one learning rate each
const Numbers kOneFar = {0.5, -0.25, 1.25, 1};
const Numbers kOneNear = {0.5, -0.25, 0.751, 1};
const Numbers kNaN = {0.5, NAN, 0.75, 1};

struct Case {
  Numbers weight = kSteps;  // at step 1
  std::string boundary = "optimizer (AdamW)";
  std::string state;  // that is kept after step 0, if any
  bool same_state = true;
  bool full = true;
};

FakeRun Trained(const Case& of, bool is_b) {
  FakeRun run(1);
  run.identity(0)->boundary = of.boundary;
  for (const uint64_t step : {0, 1}) {
    PassBuilder pass = run.Pass(0, step);
    const Tensor weight = Vector<float>("float32", step == 1 && is_b ? of.weight : kStart);
    pass.Param("fc", "weight", weight);
    if (of.full) pass.last()->payload = weight.record.payload;
    if (of.state.empty()) continue;
    pass.Param("fc", "weight." + of.state,
               Vector<float>("float32", is_b && !of.same_state ? kOneNear : kStart));
    pass.last()->key.role = Role::kState;
  }
  return run;
}

std::string TextOf(const Case& of) {
  return Joined(Text(DiffOk(Trained(of, false), Trained(of, true))));
}

void ExpectHint(const Case& of) {
  EXPECT_THAT(TextOf(of),
              HasSubstr("look at what updates it; an optimizer that divides by the size "
                        "of the gradient (Adam) turns"));
}
void ExpectNoHint(const Case& of) {
  const std::string text = TextOf(of);
  EXPECT_THAT(text, HasSubstr("look at what updates it"));
  EXPECT_THAT(text, Not(HasSubstr("(Adam)")));
}

TEST(OptimizerSteps, TheOptimizerDecides) {
  for (const char* boundary : {"optimizer (AdamW)", "forward (Model)", "", "optimizer (RMSprop)"})
    ExpectHint({.boundary = boundary});
  ExpectNoHint({.boundary = "optimizer (SGD)"});
  ExpectNoHint({.boundary = "optimizer (torch::optim::SGD)"});
}

TEST(OptimizerSteps, WhatIsKeptTellsTheOptimizer) {
  ExpectHint({.boundary = "", .state = "exp_avg", .same_state = false});
  ExpectHint({.boundary = "optimizer (SGD)", .state = "exp_avg", .same_state = false});
  ExpectNoHint({.boundary = "", .state = "momentum_buffer", .same_state = false});
}

TEST(OptimizerSteps, EqualGradientsMakeEqualSteps) { ExpectNoHint({.state = "exp_avg"}); }

TEST(OptimizerSteps, ThePlaceAndSizeOfTheDifferenceDecide) {
  ExpectHint({.weight = kOneNear});
  ExpectNoHint({.weight = kOneFar});
  ExpectNoHint({.weight = kNaN});
}

TEST(OptimizerSteps, OfADifferenceKnownByHashNothingSpeaksAgainstIt) {
  ExpectHint({.weight = kOneFar, .full = false});
  ExpectNoHint({.weight = kOneFar, .boundary = "optimizer (SGD)", .full = false});
}

}  // namespace
}  // namespace tdump::compare
