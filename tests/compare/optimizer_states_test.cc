// What an optimizer keeps, held to what the gradients that it is made of explain.
#include "compare/optimizer_states.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <regex>

#include "compare/report.h"
#include "tests/compare/job_runs.h"

namespace tdump::compare {
namespace {

using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

constexpr size_t kCount = 64 * 32;
using Numbers = std::vector<float>;

// Gradients are of the order of 1; `noise`: of their rounding.
Numbers Gradient(uint32_t of = 1, double noise = 0, uint32_t seed = 7) {
  std::mt19937 values(of), errors(seed);
  std::normal_distribution<double> value, error;  // each keeps a number that it has drawn
  Numbers gradient(kCount);
  for (float& x : gradient) {
    const double exact = value(values);
    x = static_cast<float>(exact + noise * error(errors));
  }
  return gradient;
}

Numbers Mean(const Numbers& x, const Numbers& y) {
  Numbers mean(x.size());
  for (size_t i = 0; i < x.size(); ++i) mean[i] = (x[i] + y[i]) / 2;
  return mean;
}

Tensor TensorOf(const Numbers& numbers) {
  return Matrix(64, static_cast<int64_t>(kCount / 64), numbers);
}

struct Adam {
  float beta1 = 0.9f, beta2 = 0.999f;
  float step = 1;
};

void AddKept(PassBuilder* pass, const std::string& name, const Tensor& tensor) {
  pass->Param("fc", name, tensor);
  pass->last()->key.role = Role::kState;
  pass->last()->payload = tensor.record.payload;
}

// What Adam keeps after its first step.
void AddStates(PassBuilder* pass, const Numbers& gradient, const Adam& adam = {}) {
  Numbers mean, squares;
  for (const float x : gradient) {
    mean.push_back((1 - adam.beta1) * x);
    squares.push_back((1 - adam.beta2) * x * x);
  }
  AddKept(pass, "weight.exp_avg", TensorOf(mean));
  AddKept(pass, "weight.exp_avg_sq", TensorOf(squares));
  AddKept(pass, "weight.step", MakeTensor<float>("float32", {}, {adam.step}));
}

// The gradient of a weight that has seen 1024 rows, which explain a rounding of 8e-6 of rms.
void AddGradient(PassBuilder* pass, const Numbers& gradient) {
  const uint64_t call = pass->Begin("fc", "", {});
  pass->End(call, "fc", "", {{"weight", TensorOf(gradient)}});
  pass->last()->key.role = Role::kParamGrad;
  pass->last_call()->arguments = {
      {.role = Role::kGradOutput, .arg = "", .dtype = "float32", .sizes = {1024, 32}}};
}

constexpr double kRounding = 1.5e-6;

FakeRun OneStep(const Numbers& gradient, const Numbers& of_states, const Adam& adam = {},
                bool records_gradient = true) {
  FakeRun run(1);
  PassBuilder pass = run.Pass(0, 0);
  pass.Module("fc", kInput, kWhole);
  if (records_gradient) AddGradient(&pass, gradient);
  AddStates(&pass, of_states, adam);
  return run;
}
FakeRun Stepped(const Numbers& gradient, const Adam& adam = {}) {
  return OneStep(gradient, gradient, adam);
}
FakeRun StatesOnly(const Numbers& gradient) { return OneStep({}, gradient, {}, false); }

std::vector<std::string> FailingArguments(const DiffReport& report) {
  std::vector<std::string> arguments;
  for (const Row& row : report.failing) arguments.push_back(row.key.arg);
  return arguments;
}

TEST(OptimizerStates, TheRoundingOfTheirGradientExplainsThem) {
  const DiffReport report = DiffOk(Stepped(Gradient()), Stepped(Gradient(1, kRounding)));
  EXPECT_EQ(report.overall, Overall::kSame) << Text(report, 1, 1);
  EXPECT_THAT(report.notes, Not(Contains(HasSubstr("optimizer"))));
}

TEST(OptimizerStates, AWrongBetaIsFound) {
  const FakeRun a = Stepped(Gradient());
  const Numbers rounded = Gradient(1, kRounding);
  const DiffReport mean = DiffOk(a, Stepped(rounded, {.beta1 = 0.9001f}));
  EXPECT_THAT(FailingArguments(mean), testing::ElementsAre("weight.exp_avg"));
  const DiffReport squares = DiffOk(a, Stepped(rounded, {.beta2 = 0.99901f}));
  EXPECT_THAT(FailingArguments(squares), testing::ElementsAre("weight.exp_avg_sq"));
}

TEST(OptimizerStates, TheFirstThatIsWrongIsTheOriginBesideItsGradient) {
  const DiffReport report =
      DiffOk(Stepped(Gradient()), Stepped(Gradient(1, kRounding), {.beta1 = 0.95f}));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  ASSERT_TRUE(report.origin);
  EXPECT_TRUE(report.origin->certain);
  const std::string text = Joined(Text(report, 1, 1));
  EXPECT_THAT(text, HasSubstr("ORIGIN rank 0, step 0, fc, state weight.exp_avg"));
  EXPECT_THAT(text, HasSubstr("its gradient agrees within bounds"));
}

// Two ranks that did not add up their gradients, against one process that had the whole batch.
TEST(OptimizerStates, AMissedReductionIsFound) {
  const Numbers whole = Mean(Gradient(1), Gradient(2));
  const Numbers left = Gradient(1, kRounding, 8), right = Gradient(2, kRounding, 9);
  DiffOptions options = WithDims("@param_grad", "... partial[rank:mean]");
  options.job->dims.push_back({0, Named("@state"), *Dims::Parse("... replicated[rank]")});
  const auto ranks = [&](bool reduced) {
    FakeRun run(2);
    for (const int32_t rank : {0, 1}) {
      PassBuilder pass = run.Pass(rank, 0);
      const Numbers& own = rank == 0 ? left : right;
      pass.Module("fc", kInput, kWhole);
      AddGradient(&pass, own);
      AddStates(&pass, reduced ? Mean(left, right) : own);
    }
    return run;
  };
  EXPECT_EQ(DiffOk(Stepped(whole), ranks(true), options).overall, Overall::kSame);
  const DiffReport report = DiffOk(Stepped(whole), ranks(false), options);
  EXPECT_EQ(report.overall, Overall::kDiffers);
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->row->key.arg, "weight.exp_avg");
  EXPECT_THAT(Joined(Text(report)), HasSubstr("its gradient agrees"));
}

// Of the second step; before it the two runs differ in rounding alone.
struct Second {
  Numbers states;
  float of_weight = 1;  // where weights are recorded
  float of_fc = 0;      // the weight that the states are of; 0: not recorded
  float output = 1;     // of the module that has it
  uint32_t gradient = 1;
};
void Train(FakeRun* run, int32_t rank, double noise, const Second& second, bool records_weights) {
  for (const uint64_t step : {0, 1}) {
    PassBuilder pass = run->Pass(rank, step);
    if (records_weights || step == 0) {
      const Tensor weight = Vector<float>("float32", {1, step == 0 ? 1 : second.of_weight});
      pass.Param("in", "weight", weight);
      pass.last()->payload = weight.record.payload;
    }
    pass.Module("in", kInput, Vector<float>("float32", {2, step == 0 ? 1 : second.output}));
    const Numbers gradient = Gradient(step == 0 ? 1 : second.gradient, noise);
    AddGradient(&pass, gradient);
    AddStates(&pass, step == 0 ? gradient : second.states);
    if (second.of_fc == 0) continue;
    const Tensor weight = Vector<float>("float32", {1, step == 0 ? 1 : second.of_fc});
    pass.Param("fc", "weight", weight);
    pass.last()->payload = weight.record.payload;
  }
}
FakeRun Trained(double noise, const Second& second, bool records_weights) {
  FakeRun run(1);
  Train(&run, 0, noise, second, records_weights);
  return run;
}

TEST(OptimizerStates, AMissedReductionIsNamedBesideWeightsThatMayHaveParted) {
  const FakeRun a = Trained(0, {Gradient()}, false);
  const auto against = [&](const Numbers& states) {
    return DiffOk(a, Trained(kRounding, {.states = states, .output = 1.001f}, false));
  };
  const DiffReport harmless = against(Gradient(1, kRounding));
  ASSERT_TRUE(harmless.origin);
  EXPECT_TRUE(harmless.origin->weights_unseen);
  EXPECT_FALSE(harmless.beyond_drift);
  const DiffReport missed = against(Gradient(2));
  ASSERT_TRUE(missed.origin && missed.beyond_drift);
  EXPECT_EQ(missed.origin->name, "in");
  EXPECT_EQ(missed.beyond_drift->step, 1u);
  EXPECT_EQ(missed.beyond_drift->row->key.arg, "weight.exp_avg");
  EXPECT_THAT(Joined(Text(missed)),
              HasSubstr("ALSO rank 0, step 1, fc, state weight.exp_avg weights that parted by "
                        "rounding do not make this: look here first its gradient agrees"));
}

// The weight is what they make, not what makes them.
TEST(OptimizerStates, AreNotBlamedOnTheWeightThatTheyUpdate) {
  const FakeRun a = Trained(0, {.states = Gradient(), .of_fc = 1}, false);
  const FakeRun b = Trained(kRounding, {.states = Gradient(2), .of_fc = 1.5f}, false);
  const DiffReport report = DiffOk(a, b);
  ASSERT_TRUE(report.origin);
  const Origin& state =
      report.origin->row->key.role == Role::kState ? *report.origin : *report.beyond_drift;
  EXPECT_EQ(state.row->key.arg, "weight.exp_avg");
  EXPECT_EQ(state.parameter, "");
  EXPECT_FALSE(state.drifted);
}

// The gradients of all ranks are added up behind what is recorded.
TEST(OptimizerStates, AreNotNamedWhereAnotherRanksWeightsPartedBefore) {
  const auto run = [](const Second& first, const Second& second) {
    FakeRun run(2);
    Train(&run, 0, 0, first, true);
    Train(&run, 1, 0, second, true);
    return run;
  };
  const Second agrees = {.states = Gradient()}, given = {.states = Gradient(2)};
  const FakeRun a = run(agrees, agrees);
  Second parted = {.states = Gradient(2), .of_weight = 1.001f, .output = 1.001f, .gradient = 3};
  const DiffReport stale = DiffOk(a, run(given, parted));
  ASSERT_TRUE(stale.origin);
  EXPECT_EQ(stale.origin->rank, 1);
  EXPECT_EQ(stale.origin->parameter, "in.weight");
  EXPECT_FALSE(stale.beyond_drift);
  // The same rank's weights make no such state.
  parted.gradient = 1;
  const DiffReport missed = DiffOk(a, run(agrees, parted));
  ASSERT_TRUE(missed.origin && missed.beyond_drift);
  EXPECT_EQ(missed.beyond_drift->rank, 1);
  EXPECT_EQ(missed.beyond_drift->row->key.arg, "weight.exp_avg");
}

TEST(OptimizerStates, NoWeightThatPartedIsBlamedForWhatGradientsAloneMake) {
  const DiffReport report =
      DiffOk(Trained(0, {Gradient()}, true),
             Trained(kRounding, {.states = Gradient(2), .of_weight = 1.001f}, true));
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->kind, OriginKind::kOperator);
  EXPECT_EQ(report.origin->name, "fc");
  EXPECT_EQ(report.origin->parameter, "");
  EXPECT_EQ(report.parameters.differing_names, 1u);
}

TEST(OptimizerStates, ANumberBesideAParameterIsNotMadeOfGradients) {
  DiffOptions options;
  options.pass.compute = *ParsePrecision("fp8");
  const FakeRun a = Stepped(Gradient());
  const Numbers coarse = Gradient(1, 0.03);
  EXPECT_EQ(DiffOk(a, Stepped(coarse), options).overall, Overall::kSame);
  const DiffReport report = DiffOk(a, Stepped(coarse, {.step = 1.01f}), options);
  EXPECT_THAT(FailingArguments(report), testing::ElementsAre("weight.step"));
}

TEST(OptimizerStates, FollowFromAGradientThatFails) {
  Numbers twice = Gradient();
  for (float& x : twice) x *= 2;
  const DiffReport report = DiffOk(Stepped(Gradient()), Stepped(twice));
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->row->key.role, Role::kParamGrad);
  ASSERT_EQ(report.failing.size(), 3u);
  EXPECT_FALSE(report.failing[0].explanation->follows);
  EXPECT_TRUE(report.failing[1].explanation->follows);
  EXPECT_TRUE(report.failing[2].explanation->follows);
}

// A gradient of this step that is equal does not say that those of earlier steps were.
TEST(OptimizerStates, WhatWasSeenBeforeStandsInForGradientsOfEarlierSteps) {
  const auto run = [](double noise, double kept) {
    FakeRun run(1);
    PassBuilder pass = run.Pass(0, 0);
    AddGradient(&pass, Gradient(3, noise));
    const uint64_t call = pass.Begin("fc", "", {});
    pass.End(call, "fc", "", {{"weight", TensorOf(Gradient())}});
    pass.last()->key.role = Role::kParamGrad;
    AddStates(&pass, Gradient(1, kept));
    return run;
  };
  const FakeRun a = run(0, 0);
  EXPECT_EQ(DiffOk(a, run(kRounding, kRounding)).overall, Overall::kSame);
  EXPECT_EQ(DiffOk(a, run(0, kRounding)).overall, Overall::kDiffers);
}

TEST(OptimizerStates, WithoutGradientsTheReportSaysWhatToDo) {
  const FakeRun a = StatesOnly(Gradient()), b = StatesOnly(Gradient(1, kRounding));
  const DiffReport report = DiffOk(a, b);
  EXPECT_EQ(report.counts.failing, 2u);
  ASSERT_TRUE(report.origin);
  const std::string text = Joined(Text(report, 1, 1));
  EXPECT_THAT(text, HasSubstr("ORIGIN rank 0, step 0, fc, state weight.exp_avg"));
  EXPECT_THAT(text, HasSubstr("its gradient was not recorded: capture role param_grad"));
  EXPECT_THAT(text, HasSubstr("2 pairs of what the optimizer keeps: no gradient was recorded"));
  EXPECT_THAT(text, HasSubstr("--allow-failed '@state#.*[.]' lists them"));
  DiffOptions options;
  options.pass.allow_failed = {NameFilter(), [](const std::string& text) {
                                 return std::regex_search(text, std::regex("@state#.*[.]"));
                               }};
  const DiffReport allowed = DiffOk(a, b, options);
  EXPECT_EQ(allowed.overall, Overall::kSame);
  EXPECT_EQ(allowed.counts.allowed, 2u);
  EXPECT_FALSE(allowed.origin);
}

// Steps whose gradients are kept in full, and what Adam makes of them by its hash.
struct Hashed {
  int32_t ranks = 2;
  std::vector<uint64_t> steps = {0, 1, 2};
  // What is otherwise: of `rank`, from `step` on.
  uint64_t step = 2;
  int32_t rank = 1;
  bool state = false, gradient = false, output = false;
  int32_t without_gradients = -1;  // a rank
};
FakeRun RunOf(const Hashed& hashed) {
  FakeRun run(hashed.ranks);
  for (const uint64_t step : hashed.steps) {
    for (int32_t rank = 0; rank < hashed.ranks; ++rank) {
      const bool otherwise = rank == hashed.rank && step >= hashed.step;
      const auto of = static_cast<uint32_t>(10 * step) + static_cast<uint32_t>(rank);
      PassBuilder pass = run.Pass(rank, step);
      const float output = otherwise && hashed.output ? 9 : 1;
      pass.Module("fc", kInput, Vector<float>("float32", {output, 2}));
      if (rank != hashed.without_gradients)
        AddGradient(&pass, Gradient(of, otherwise && hashed.gradient ? kRounding : 0));
      // Of the whole batch: the same on all ranks.
      Numbers reduced = Gradient(static_cast<uint32_t>(100 + step));
      if (step >= hashed.step && (hashed.gradient || (otherwise && hashed.state))) reduced[0] += 1;
      for (const char* name : {"weight.exp_avg", "weight.exp_avg_sq"}) {
        AddKept(&pass, name, TensorOf(reduced));
        pass.last()->payload.reset();
      }
    }
  }
  return run;
}

TEST(OptimizerStates, OneThatDiffersByHashThoughNothingDoesThatItIsMadeOfFails) {
  const DiffReport report = DiffOk(RunOf({}), RunOf({.state = true}));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.failing, 0u);
  EXPECT_EQ(report.counts.unexplained_states, 2u);
  const std::string text = Joined(Text(report, 2, 2));
  EXPECT_THAT(text, HasSubstr("DIFFERS in 2 pairs of what the optimizer keeps, by hash, which does "
                              "not say by how much"));
  EXPECT_THAT(text, HasSubstr("ORIGIN rank 1, step 2, fc, state weight.exp_avg its gradient agrees "
                              "bit for bit what is kept does not: bits differ (hash; values were "
                              "not kept) gradients on every rank, and what was kept one step "
                              "before, are equal bit for bit: nothing explains it only rank 1"));
  EXPECT_THAT(text, Not(HasSubstr("BITS")));
}

TEST(OptimizerStates, OneThatSomethingMayExplainDoesNotFailByItsHash) {
  const auto overall = [](const Hashed& of_a, const Hashed& of_b, const DiffOptions& options = {}) {
    const DiffReport report = DiffOk(RunOf(of_a), RunOf(of_b), options);
    EXPECT_EQ(report.counts.unexplained_states, 0u);
    return report.overall;
  };
  // The gradient of another rank is summed into it.
  EXPECT_EQ(overall({}, {.gradient = true}), Overall::kSame);
  // There is no step before that shows that the two runs sum alike, or one is not recorded.
  EXPECT_EQ(overall({}, {.step = 0, .state = true}), Overall::kSame);
  const std::vector<uint64_t> steps = {0, 2};
  EXPECT_EQ(overall({.steps = steps}, {.steps = steps, .state = true}), Overall::kSame);
  // A rank has gradients that were not recorded, or is not compared.
  for (const int32_t rank : {0, 1})
    EXPECT_EQ(overall({.without_gradients = rank}, {.state = true, .without_gradients = rank}),
              Overall::kSame);
  DiffOptions options;
  options.pairing.ranks = *Spec::Parse("1");
  EXPECT_EQ(overall({}, {.state = true}, options), Overall::kSame);
  options = {};
  options.pass.allow_failed = {NameFilter(), [](const std::string& text) {
                                 return text.find("@state#") != std::string::npos;
                               }};
  EXPECT_EQ(overall({}, {.state = true}, options), Overall::kSame);
  // Other versions of anything may sum in another order.
  FakeRun a = RunOf({}), b = RunOf({.state = true});
  for (const int32_t rank : {0, 1}) {
    a.identity(rank)->versions = "torch 2.9.0";
    b.identity(rank)->versions = "torch 2.9.1";
  }
  EXPECT_EQ(DiffOk(a, b).counts.unexplained_states, 0u);
}

TEST(OptimizerStates, OfOneKnownByHashNobodySaysThatItIsWithinItsBound) {
  const DiffReport report = DiffOk(RunOf({.steps = {0, 1, 2, 3}, .step = 3}),
                                   RunOf({.steps = {0, 1, 2, 3}, .step = 2, .state = true}));
  EXPECT_EQ(report.counts.unexplained_states, 2u);
  FakeRun a = RunOf({.steps = {0, 1, 2}}), b = RunOf({.steps = {0, 1, 2}, .state = true});
  for (FakeRun* run : {&a, &b}) {
    for (const int32_t rank : {0, 1}) {
      const float output = run == &b ? 9 : 1;
      run->Pass(rank, 3).Module("fc", kInput, Vector<float>("float32", {output, 2}));
    }
  }
  const std::string text = Joined(Text(DiffOk(a, b), 2, 2));
  EXPECT_THAT(text, HasSubstr("ORIGIN rank 1, step 2, fc, state weight.exp_avg"));
  EXPECT_THAT(text, HasSubstr("first difference in bits, of unknown size; others are outside their "
                              "bounds later"));
  EXPECT_THAT(text, Not(HasSubstr("still within its bound")));
}

TEST(OptimizerStates, WithoutTheirValuesTheReportSaysWhatToDo) {
  DiffOptions options;
  options.pass.require_bits = true;
  const std::string text = Joined(Text(DiffOk(RunOf({}), RunOf({.state = true}), options), 2, 2));
  EXPECT_THAT(text, HasSubstr("2 pairs of what the optimizer keeps: their values were not kept on "
                              "both sides, which would tell by how much they differ; capture role "
                              "state with level full. --allow-failed '@state#.*[.]' lists them"));
  EXPECT_THAT(text, Not(HasSubstr("no gradient was recorded")));
}

TEST(OptimizerStates, NamesTellWhatIsMadeOfSquares) {
  for (const char* name : {"exp_avg_sq", "max_exp_avg_sq", "square_avg", "sum", "acc_delta"})
    EXPECT_EQ(StateKindOf(name), StateKind::kOfSquares) << name;
  for (const char* name : {"exp_avg", "momentum_buffer", "grad_avg", "old_dirs.0"})
    EXPECT_EQ(StateKindOf(name), StateKind::kOfGradients) << name;
  EXPECT_EQ(StateKindOf("step"), StateKind::kNone);
}

}  // namespace
}  // namespace tdump::compare
