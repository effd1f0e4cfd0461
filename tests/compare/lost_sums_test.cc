// A run in bfloat16 that trains: parameters whose gradient is a sum that cancels, of which rounding
// alone is left, and the optimizers that make whole steps of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "compare/report.h"
#include "tests/compare/trained_runs.h"

namespace tdump::compare {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kTokens = 64, kFeatures = 32;

// Of each feature they add up to next to nothing. `noise`: of each term.
Numbers Terms(double noise) {
  std::mt19937 values(1), errors(2);
  std::normal_distribution<double> normal;
  std::vector<double> terms(kTokens * kFeatures);
  for (double& x : terms) x = normal(values);
  Numbers rounded(terms.size());
  for (size_t i = 0; i < terms.size(); ++i) {
    double mean = 0;
    for (size_t row = 0; row < kTokens; ++row)
      mean += terms[row * kFeatures + i % kFeatures] / kTokens;
    rounded[i] = static_cast<float>(terms[i] - mean + noise * normal(errors));
  }
  return rounded;
}

Numbers SumsOf(const Numbers& terms) {
  Numbers sums(kFeatures);
  for (size_t i = 0; i < terms.size(); ++i) sums[i % kFeatures] += terms[i];
  return sums;
}

void AddTo(PassBuilder* pass, const std::string& module, Role role, const std::string& name,
           const Tensor& tensor) {
  pass->Param(module, name, tensor);
  pass->last()->key.role = role;
  pass->last()->payload = tensor.record.payload;
}

void AddBackward(PassBuilder* pass, const std::string& module, Role role, const std::string& arg,
                 const Tensor& tensor) {
  const uint64_t call = pass->Begin(module, "", {});
  pass->End(call, module, "", {{arg, tensor}});
  pass->last()->key.role = role;
  pass->last_call()->arguments = {
      {.role = Role::kGradOutput, .arg = "", .dtype = "float32", .sizes = {kTokens, kFeatures}}};
}

// What may be wrong in the bias of `k`.
struct Wrong {
  float rate = 1, squares = 1;  // factors
};

// An optimizer's first step.
struct Optimizer {
  bool keeps = false;                  // Adam's means
  std::function<float(float g)> step;  // of an element
};
const Optimizer kDescent = {.keeps = false, .step = [](float g) { return kRate * g; }};
const Optimizer kAdam = {.keeps = true,
                         .step = [](float g) { return kRate * g / (std::abs(g) + 1e-3f); }};

// Trains `k`, whose bias has no gradient but for rounding, and three modules that have one.
FakeRun Training(const Optimizer& optimizer, double noise, const Wrong& wrong = {}) {
  struct Parameter {
    std::string module, name;
    Numbers gradient, values;
  };
  const Numbers terms = Terms(noise);
  std::vector<Parameter> parameters = {{"k", "bias", SumsOf(terms), Numbers(kFeatures, 0.1f)}};
  for (const char* module : {"fc0", "fc1", "fc2"})
    parameters.push_back({module, "weight", Gradient(0, 1), Weights()});
  const auto tensor = [](const Parameter& parameter, const Numbers& numbers) {
    return parameter.name == "bias" ? Vector("float32", numbers) : Matrix(kRows, kColumns, numbers);
  };
  const Tensor x = MakeTensor("float32", {kTokens, kFeatures}, Numbers(kTokens * kFeatures, 1));
  FakeRun run(1);
  for (const uint64_t step : {0, 1}) {
    PassBuilder pass = run.Pass(0, step);
    for (const Parameter& p : parameters)
      AddTo(&pass, p.module, Role::kParam, p.name, tensor(p, p.values));
    pass.Module("k", x, x);
    if (step == 1) break;
    AddBackward(&pass, "k", Role::kGradOutput, "",
                MakeTensor("float32", {kTokens, kFeatures}, terms));
    for (Parameter& p : parameters) {
      AddBackward(&pass, p.module, Role::kParamGrad, p.name, tensor(p, p.gradient));
      const Wrong is = p.module == "k" ? wrong : Wrong();
      Numbers mean, squares;
      for (size_t i = 0; i < p.gradient.size(); ++i) {
        const float g = p.gradient[i];
        mean.push_back(0.1f * g);
        squares.push_back(0.001f * g * g * is.squares);
        p.values[i] -= is.rate * optimizer.step(g);
      }
      if (!optimizer.keeps) continue;
      AddTo(&pass, p.module, Role::kState, p.name + ".exp_avg", tensor(p, mean));
      AddTo(&pass, p.module, Role::kState, p.name + ".exp_avg_sq", tensor(p, squares));
    }
  }
  return run;
}

std::vector<std::string> Failing(const Optimizer& optimizer, const Wrong& wrong) {
  DiffOptions options;
  options.pass.compute = *ParsePrecision("bf16");
  std::vector<std::string> names;
  const DiffReport report =
      DiffOk(Training(optimizer, 0), Training(optimizer, 1e-3, wrong), options);
  for (const Row& row : report.failing) names.push_back(ToText(row.key));
  return names;
}

TEST(LostSums, RoundingIsFarLargerThanWhatIsLeft) {
  const Numbers a = SumsOf(Terms(0)), b = SumsOf(Terms(1e-3));
  for (size_t i = 0; i < a.size(); ++i) EXPECT_LT(std::abs(a[i]), 1e-5);
  EXPECT_GT(std::abs(b[0]), 1e-3);
}

// Of its square too, and of a step that none of A's is as large as.
TEST(LostSums, MayMakeWholeStepsOfRounding) {
  EXPECT_THAT(Failing(kDescent, {}), IsEmpty());
  EXPECT_THAT(Failing(kAdam, {}), IsEmpty());
}

TEST(LostSums, AStepThatIsLargerThanItsRateMakesIsFound) {
  for (const float rate : {1.05f, 2.0f, 100.0f}) {
    EXPECT_THAT(Failing(kDescent, {.rate = rate}), ElementsAre("k@param#bias")) << rate;
    EXPECT_THAT(Failing(kAdam, {.rate = 1.2f * rate}), ElementsAre("k@param#bias")) << rate;
  }
}

TEST(LostSums, ASquareThatIsLargerThanItsGradientMakesIsFound) {
  EXPECT_THAT(Failing(kAdam, {.squares = 16}), testing::Contains("k@state#bias.exp_avg_sq"));
}

}  // namespace
}  // namespace tdump::compare
