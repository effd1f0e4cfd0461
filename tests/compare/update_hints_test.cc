#include "compare/update_hints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/compare/job_runs.h"

namespace tdump::compare {
namespace {

using testing::HasSubstr;
using testing::Not;

const char kUnrecorded[] =
    "note fc.bias came to step 1 by an update of which nothing was recorded: to see whether it "
    "parted by rounding, capture {role: [param_grad, state], level: full}";
const char kSteps[] =
    "note step 0 agrees, and from then on weights had moved apart; if that is rounding, judge it "
    "alone: --steps 0";

struct Descent {
  int32_t ranks = 1;
  double off = 0;  // the update, of its size
  std::string boundary = "optimizer (SGD)";
  bool records_gradient = false, records_state = false;
  std::string other = "fc";  // whose gradient is recorded
};

// A bias that starts at 0, and what plain gradient descent makes of it.
FakeRun Run(const Descent& of) {
  FakeRun run(of.ranks);
  const auto add = [](PassBuilder* pass, const std::string& path, Role role,
                      const std::string& name, std::vector<float> numbers) {
    const Tensor tensor = Vector<float>("float32", numbers);
    pass->Param(path, name, tensor);
    pass->last()->key.role = role;
    pass->last()->payload = tensor.record.payload;
  };
  for (int32_t rank = 0; rank < of.ranks; ++rank) {
    run.identity(rank)->boundary = of.boundary;
    PassBuilder before = run.Pass(rank, 0);
    add(&before, "fc", Role::kParam, "bias", {0, 0, 0, 0});
    before.Module("fc", kInput, kWhole);
    const std::vector<float> gradient = {1, -2, 0.5, 3};
    if (of.records_gradient) add(&before, of.other, Role::kParamGrad, "bias", gradient);
    if (of.records_state) add(&before, of.other, Role::kState, "bias.momentum_buffer", gradient);
    std::vector<float> bias;
    for (const double x : gradient) bias.push_back(static_cast<float>(-0.01 * x * (1 + of.off)));
    PassBuilder after = run.Pass(rank, 1);
    add(&after, "fc", Role::kParam, "bias", bias);
    after.Module("fc", kInput, kWhole);
  }
  return run;
}

std::string TextOf(Descent b) {
  Descent a = b;
  a.ranks = 1;
  a.off = 0;
  const DiffOptions options = b.ranks > 1 ? WithDims("fc", "... replicated[rank]") : DiffOptions{};
  const DiffReport report = DiffOk(Run(a), Run(b), options);
  EXPECT_EQ(report.overall, Overall::kDiffers);
  return Joined(Text(report, 1, b.ranks));
}

// One that is within its bound is no origin of another one.
TEST(UpdateHints, OfTheFirstParameterOutsideItsBoundItIsTold) {
  const auto run = [](float bias, float weight) {
    FakeRun job(1);
    for (const uint64_t step : {0, 1}) {
      PassBuilder pass = job.Pass(0, step);
      for (const auto& [path, number] : {std::pair("fc", bias), std::pair("out", weight)}) {
        const Tensor tensor = Vector<float>("float32", {step == 0 ? 0 : number, 1});
        pass.Param(path, "bias", tensor);
        pass.last()->payload = tensor.record.payload;
      }
      pass.Module("fc", kInput, kWhole);
    }
    return job;
  };
  const DiffReport report = DiffOk(run(0.5f, 0.5f), run(0.5f + 0x1p-24f, 0.5001f));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_THAT(Joined(Text(report)),
              HasSubstr("note out.bias came to step 1 by an update of which"));
}

size_t CountOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST(UpdateHints, OfAnUpdateThatWasNotRecordedItIsTold) {
  for (const int32_t ranks : {1, 2}) {
    const std::string text = TextOf({.ranks = ranks, .off = 1e-5});
    EXPECT_THAT(text, HasSubstr(kUnrecorded));
    EXPECT_THAT(text, HasSubstr(kSteps));
  }
}

TEST(UpdateHints, WhatIsFarOffIsNoRounding) {
  const std::string text = TextOf({.off = 0.05});
  EXPECT_THAT(text, HasSubstr(kUnrecorded));
  EXPECT_THAT(text, Not(HasSubstr("--steps")));
}

TEST(UpdateHints, StepsAreNamedOnce) {
  const std::string text = TextOf({.off = 1e-5, .boundary = "optimizer (AdamW)"});
  EXPECT_THAT(text, HasSubstr(kUnrecorded));
  EXPECT_EQ(CountOf(text, "--steps"), 1u);
}

TEST(UpdateHints, WhatWasRecordedOfTheUpdateTells) {
  EXPECT_THAT(TextOf({.off = 0.05, .records_gradient = true}), Not(HasSubstr("came to step")));
  EXPECT_THAT(TextOf({.off = 0.05, .records_state = true}), Not(HasSubstr("came to step")));
  EXPECT_THAT(TextOf({.off = 1e-5, .records_gradient = true, .other = "fc2"}),
              HasSubstr(kUnrecorded));
}

}  // namespace
}  // namespace tdump::compare
