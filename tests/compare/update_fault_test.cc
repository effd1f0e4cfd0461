// Where most parameters of a step part although their gradients agree.
#include "compare/update_fault.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <map>
#include <string>
#include <vector>

#include "tests/compare/counting_view.h"
#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> kNames = {"a", "b", "c", "d", "e", "f", "g", "h"};
constexpr const char* kLook =
    "the gradients, as recorded, agree, and what the optimizer keeps does not: look between "
    "backward and the optimizer's step: the all-reduce of gradients, clipping, the loss scale";

Tensor Times(float factor) {
  return Vector<float>("float32", {factor * 0.5f, factor * -0.25f, factor * 0.75f, factor * 1.5f});
}

// One step of one rank: `kept` is what the factor is of what the optimizer keeps of each.
struct Rank {
  std::map<std::string, float> kept;
  float common = 1;   // of those that are not in `kept`
  float squares = 0;  // of the second state; 0: as the first one
  std::string other_gradient;
  float gradient = 1;  // of that
  double scale = 0;    // of states, which are then float64
};

Tensor Kept(float factor, double scale) {
  if (scale == 0) return Times(factor);
  return Vector<double>("float64", {factor * scale, -factor * scale, 2 * factor * scale, scale});
}

void AddStep(FakeRun* run, int32_t rank, const Rank& of) {
  PassBuilder pass = run->Pass(rank, 0);
  for (const std::string& name : kNames) {
    const uint64_t call = pass.Begin(name, "", {});
    pass.End(call, name, "", {{"weight", Times(name == of.other_gradient ? of.gradient : 1)}});
    pass.last()->key.role = Role::kParamGrad;
  }
  for (const std::string& name : kNames) {
    const float factor = of.kept.contains(name) ? of.kept.at(name) : of.common;
    const auto keep = [&](const std::string& arg, const Tensor& tensor) {
      pass.Param(name, arg, tensor);
      pass.last()->key.role = Role::kState;
      pass.last()->payload = tensor.record.payload;
    };
    keep("weight.exp_avg", Kept(factor, of.scale));
    keep("weight.exp_avg_sq", Kept(of.squares == 0 ? factor * factor : of.squares, of.scale));
    keep("weight.step", MakeTensor<float>("float32", {}, {1}));
  }
}

DiffReport DiffRanks(const std::vector<Rank>& of_b) {
  const auto world = static_cast<int32_t>(of_b.size());
  FakeRun a(world), b(world);
  for (int32_t rank = 0; rank < world; ++rank) {
    AddStep(&a, rank, {.scale = of_b.front().scale});
    AddStep(&b, rank, of_b[static_cast<size_t>(rank)]);
  }
  return DiffOk(a, b);
}

TEST(UpdateFault, OneFactorOfAllIsToldToLieBehindTheGradients) {
  const DiffReport report = DiffRanks({{.common = 1.25f}});
  ASSERT_TRUE(report.origin && report.origin->update);
  EXPECT_EQ(report.origin->update->parted, 8);
  EXPECT_EQ(report.origin->update->apart, "");
  const std::string text = Joined(Text(report));
  EXPECT_THAT(text, HasSubstr(std::string("in 8 of 8 parameters of step 0 ") + kLook));
  EXPECT_THAT(text, Not(HasSubstr("the error is larger")));
}

// One that was not added up, which changes the norm that all are clipped by.
TEST(UpdateFault, TheParameterThatIsFarOffIsTheOriginOnItsRank) {
  const DiffReport report =
      DiffRanks({{.common = 0.998f}, {.kept = {{"f", 3.f}}, .common = 0.998f}});
  ASSERT_TRUE(report.origin && report.origin->update);
  EXPECT_EQ(report.origin->name, "f");
  EXPECT_EQ(report.origin->row->key.arg, "weight.exp_avg");
  EXPECT_THAT(report.origin->ranks, ElementsAre(1));
  ASSERT_EQ(report.origin->inputs.size(), 1);
  EXPECT_EQ(report.origin->inputs.front().key.path, "f");
  // 20 log10(1 / 2), and of 1 / 0.002.
  EXPECT_THAT(Joined(Text(report, 2, 2)),
              HasSubstr("f.weight is far off on rank 1 (-6.0 dB), the others are not (54.0 dB at "
                        "the median; 54.0 dB on rank 0, where none is): what these have in common "
                        "follows, as by the norm that clips all"));
}

// Rank 0 fails at that parameter too.
TEST(UpdateFault, NothingIsSaidOfItThatWasKnownOfAnotherParameter) {
  const DiffReport report =
      DiffRanks({{.common = 0.998f}, {.kept = {{"f", 3.f}}, .common = 0.998f}, {}});
  ASSERT_TRUE(report.origin && report.origin->update);
  EXPECT_EQ(report.origin->name, "f");
  EXPECT_THAT(report.origin->ranks_agreeing, testing::IsEmpty());
  EXPECT_THAT(Joined(Text(report, 3, 3)), Not(HasSubstr("only rank 1")));
}

// The squares of such numbers are beyond the range of a double.
TEST(UpdateFault, StatesWithoutAMeasuredErrorTellNoRank) {
  const DiffReport report =
      DiffRanks({{.common = 1.25f, .scale = 1e300}, {.common = 1.5f, .scale = 1e300}});
  ASSERT_TRUE(report.origin && report.origin->update);
  EXPECT_EQ(report.origin->update->parted, 8);
  EXPECT_THAT(report.origin->update->ranks, testing::IsEmpty());
}

TEST(UpdateFault, OnEveryRankThatHasItItIsNamed) {
  const Rank off = {.kept = {{"f", 3.f}}, .common = 0.998f};
  const DiffReport report = DiffRanks({off, off});
  ASSERT_TRUE(report.origin && report.origin->update);
  EXPECT_EQ(report.origin->name, "f");
  EXPECT_THAT(report.origin->ranks, ElementsAre(0, 1));
}

TEST(UpdateFault, TheRankWithTheLargerErrorIsNamed) {
  const DiffReport report = DiffRanks({{.common = 0.998f}, {.common = 2.25f}});
  ASSERT_TRUE(report.origin && report.origin->update);
  EXPECT_EQ(report.origin->rank, 1);
  EXPECT_THAT(
      Joined(Text(report, 2, 2)),
      HasSubstr("the error is larger on rank 1 (-1.9 dB at the median) than on rank 0 (54.0 "
                "dB)"));
}

TEST(UpdateFault, AFewParametersAreNoneOfIt) {
  const DiffReport report = DiffRanks({{.kept = {{"c", 2.f}, {"f", 2.f}}}});
  ASSERT_TRUE(report.origin);
  EXPECT_FALSE(report.origin->update);
  EXPECT_EQ(report.origin->name, "c");
}

// A state that is right was made of a gradient that is right.
TEST(UpdateFault, WhereOneOfTwoStatesIsRightTheGradientWas) {
  const DiffReport report = DiffRanks({{.common = 1.25f, .squares = 1}});
  ASSERT_TRUE(report.origin);
  EXPECT_FALSE(report.origin->update);
}

TEST(UpdateFault, AGradientThatDiffersIsTheOrigin) {
  const DiffReport report =
      DiffRanks({{.common = 1.25f}, {.common = 1.25f, .other_gradient = "b", .gradient = 3}});
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->row->key.role, Role::kParamGrad);
  EXPECT_FALSE(report.origin->update);
}

// Without states: weights one step later.
struct Trained {
  float gradient = 1;
  float weight = 1, weight_before = 1;
  size_t weights = kNames.size();  // that are so
};
FakeRun TwoSteps(const Trained& of) {
  FakeRun run(1);
  for (const uint64_t step : {0, 1}) {
    PassBuilder pass = run.Pass(0, step);
    for (size_t i = 0; i < kNames.size(); ++i) {
      const float factor = i >= of.weights ? 1 : step == 0 ? of.weight_before : of.weight;
      const Tensor weight = Times(factor);
      pass.Param(kNames[i], "weight", weight);
      pass.last()->payload = weight.record.payload;
    }
    for (const std::string& name : kNames) {
      const uint64_t call = pass.Begin(name, "", {});
      pass.End(call, name, "", {{"weight", Times(step == 0 ? of.gradient : 1)}});
      pass.last()->key.role = Role::kParamGrad;
    }
  }
  return run;
}

TEST(UpdateFault, WithoutStatesWeightsOfTheNextStepTell) {
  const auto update = [](const Trained& of) {
    const DiffReport report = DiffOk(TwoSteps({}), TwoSteps(of));
    return report.origin && report.origin->update;
  };
  const DiffReport report = DiffOk(TwoSteps({}), TwoSteps({.weight = 1.01f}));
  ASSERT_TRUE(report.origin && report.origin->update);
  EXPECT_TRUE(report.origin->update->of_weights);
  EXPECT_THAT(Joined(Text(report)),
              HasSubstr("in 8 of 8 parameters of step 0 the gradients, as recorded, agree bit for "
                        "bit, and the parameter after it does not: look between"));
  EXPECT_FALSE(update({.weight = 1.01f, .weights = 2}));
  EXPECT_FALSE(update({.weight = 1.01f, .weight_before = 1.01f}));
  EXPECT_FALSE(update({.gradient = 1.0000001f, .weight = 1.01f}));
}

// Of 64 ranks with the same gradients: each a row of numbers, together one list of 8,000 hashes.
TEST(UpdateFault, GradientsThatAreEqualAreKeptOnceAndReadOnce) {
  constexpr size_t kGradients = 4000;
  FakeRun run(1);
  PassBuilder made = run.Pass(0, 0);
  for (size_t i = 0; i < kGradients; ++i) {
    const std::string path = "model.layers." + std::to_string(i) + ".self_attn.q_proj";
    made.End(made.Begin(path, "", {}), path, "", {{"weight", Times(1)}});
    made.last()->key.role = Role::kParamGrad;
  }
  size_t reads = 0, kept = 0;
  DiffOptions options;
  options.on_pass = [&](const PassDiff& pass, const PassPair& pair) {
    const PassDiff counted = Counted(pass, &reads);
    UpdateFaultFinder finder;
    const size_t before = ::mallinfo2().uordblks;
    for (const uint64_t step : {0, 1}) {
      for (int32_t rank = 0; rank < 64; ++rank) {
        PassPair of = pair;
        of.a.step = of.b.step = step;
        of.a.rank = of.b.rank = rank;
        finder.AddPass(counted, of);
      }
    }
    kept = ::mallinfo2().uordblks - before;
  };
  DiffOk(run, run, options);
  EXPECT_EQ(reads, kGradients);
  EXPECT_LT(kept, 400'000);  // 64,000 of the list, and 128 ranks
}

}  // namespace
}  // namespace tdump::compare
