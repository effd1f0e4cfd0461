// Buffers that a module makes of its inputs, as the running statistics of a batch norm.
#include "compare/weight_bounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/compare/trained_runs.h"

namespace tdump::compare {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Case {
  float first = 1, later = 1;  // factors of B's buffer
  double off = 0;              // of one element of it, at step 1
  float input = 1;             // factor of B's inputs
};

FakeRun Normalised(const Case& of, bool is_b) {
  FakeRun run(1);
  for (uint64_t step = 0; step < 2; ++step) {
    PassBuilder pass = run.Pass(0, step);
    Numbers buffer(kCount, 0.25f);
    for (float& x : buffer) x *= is_b ? (step == 0 ? of.first : of.later) : 1;
    if (is_b && step == 1) buffer[3] += static_cast<float>(of.off * buffer[3]);
    Add(&pass, Role::kState, "running_mean", buffer);
    Numbers in(512 * kCount);
    for (size_t i = 0; i < in.size(); ++i) in[i] = (i % 2 == 0 ? 1.5f : -1) * (is_b ? of.input : 1);
    const Tensor input = MakeTensor("float32", {512, kCount}, in);
    pass.Module("fc", input, input);
    pass.last_call()->arguments = {
        {.role = Role::kInput, .arg = "0", .dtype = "float32", .sizes = {512, kCount}}};
    AddGradient(&pass, Gradient(is_b ? 1e-7 : 0, 2));
  }
  return run;
}

DiffReport DiffOf(const Case& of) { return DiffOk(Normalised({}, false), Normalised(of, true)); }

TEST(WeightBounds, ABufferIsASumOverTheInputOfItsModule) {
  const DiffReport report = DiffOf({.later = 1 + 1.5e-6f});
  EXPECT_EQ(report.overall, Overall::kSame) << Text(report);
  // 4 * sqrt(2) * 0.42 * 6e-8 and 2 * sqrt(512) * 6e-8.
  EXPECT_EQ(DiffOf({.later = 1 + 4e-6f}).overall, Overall::kDiffers);
}

TEST(WeightBounds, TheErrorOfTheInputPassesOn) {
  const Case of = {.later = 1 + 4e-6f, .input = 1 + 2e-6f};
  EXPECT_EQ(DiffOf(of).overall, Overall::kSame) << Text(DiffOf(of));
}

TEST(WeightBounds, OfTheFirstStepABufferIsGiven) {
  EXPECT_EQ(DiffOf({.first = 1 + 1.5e-6f}).overall, Overall::kDiffers);
}

TEST(WeightBounds, AnotherMomentumAndOneElementAreFound) {
  for (const Case& of : {Case{.later = 2}, Case{.later = 1.1f}, Case{.off = 0.01},
                         Case{.later = 1 + 1.0f / 512}, Case{.later = 0}}) {
    EXPECT_EQ(DiffOf(of).overall, Overall::kDiffers) << of.later;
  }
}

TEST(WeightBounds, NothingIsSaidOfTheGradientsOfABuffer) {
  DiffOptions options;
  options.pass.compute = *ParsePrecision("bf16");
  const std::string text =
      Joined(Text(DiffOk(Normalised({}, false), Normalised({.later = 2}, true), options)));
  EXPECT_THAT(text, HasSubstr("look at what updates it"));
  EXPECT_THAT(text, Not(HasSubstr("rounding of its gradients")));
}

}  // namespace
}  // namespace tdump::compare
