// Gradients that are sums over rows whose terms cancel: what is left of them is rounding.
#include "compare/gradient_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "compare/report.h"
#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

using testing::HasSubstr;
using testing::Not;
using Numbers = std::vector<float>;

constexpr int64_t kRows = 64, kFeatures = 32;
constexpr double kRoundoff = 0x1p-24;

// Sample 0: the gradient; 1: grad_output; 2: the input.
SumError ErrorOf(const std::vector<uint64_t>& gradient, const std::vector<uint64_t>& grad_output,
                 const std::vector<uint64_t>& input, const ErrorLevel& error = {},
                 bool norm = false, int times = 1, bool is_joined = false) {
  const TensorSize sizes[] = {{gradient, 1e-9, 1e-9, kRoundoff, is_joined},
                              {grad_output, 0.5, 0.5, kRoundoff},
                              {input, 3, 3, kRoundoff}};
  GradientSums sums;
  sums.Watch(7);
  sums.AddInput(2, 7, {.power = 1e-10});
  for (int i = 0; i < times; ++i) sums.AddGradOutput(1, 7, error);
  sums.AddGradOutput(1, 8, error);  // of another module
  return sums.ErrorOf(sizes[0], 7, norm, [&](size_t i) { return sizes[i]; });
}

TEST(GradientSums, OfABiasRowsAreAddedUp) {
  const SumError exact = ErrorOf({32}, {4, 16, 32}, {4, 16, 8});
  EXPECT_EQ(exact.terms, 64u);
  EXPECT_DOUBLE_EQ(exact.rms, 0.5);
  EXPECT_DOUBLE_EQ(exact.error, 8 * 0.5 * kRoundoff);
  // Errors of rows that have nothing in common add up like their squares, others as they are.
  EXPECT_NEAR(ErrorOf({32}, {64, 32}, {}, {.power = 1e-8, .common = 1e-12}).error, 8 * 0.5e-4,
              1e-9);
  EXPECT_NEAR(ErrorOf({32}, {64, 32}, {}, {.power = 1e-8, .common = 1e-8}).error, 64 * 0.5e-4,
              1e-9);
}

TEST(GradientSums, GradientsOfMicroBatchesAccumulate) {
  const SumError sum = ErrorOf({32}, {64, 32}, {}, {}, false, 4);
  EXPECT_EQ(sum.terms, 256u);
  EXPECT_DOUBLE_EQ(sum.error, 16 * 0.5 * kRoundoff);
}

// Two ranks' gradients, one behind the other: each is a sum over the rows of its own.
TEST(GradientSums, GradientsOfRanksAreOfTheirOwnRows) {
  const SumError sum = ErrorOf({64}, {64, 32}, {}, {}, false, 1, /*is_joined=*/true);
  EXPECT_EQ(sum.terms, 32u);
  EXPECT_DOUBLE_EQ(sum.error, std::sqrt(32) * 0.5 * kRoundoff);
  // Of one rank it is of another form: four gates of 16 features each.
  EXPECT_EQ(ErrorOf({64}, {64, 32}, {}).terms, 0u);
}

TEST(GradientSums, OfAWeightProductsAre) {
  const SumError sum = ErrorOf({32, 8}, {64, 32}, {64, 8}, {.power = 3e-10});
  EXPECT_DOUBLE_EQ(sum.rms, 0.5 * 3);
  EXPECT_NEAR(sum.error, 8 * 1.5 * 2e-5, 1e-8);  // 1e-10 of the input, 3e-10 of the gradient
  // A norm's input counts as it is after it, of size 1.
  EXPECT_DOUBLE_EQ(ErrorOf({32}, {64, 32}, {64, 32}, {}, /*norm=*/true).rms, 0.5);
}

TEST(GradientSums, ShapesThatDoNotFitTellNothing) {
  EXPECT_EQ(ErrorOf({96}, {64, 32}, {64, 32}).terms, 0u);
  EXPECT_EQ(ErrorOf({32, 8}, {64, 32}, {64, 16}).terms, 0u);
  EXPECT_EQ(ErrorOf({32, 8, 3}, {64, 32}, {64, 8}).terms, 0u);
  EXPECT_EQ(ErrorOf({}, {64, 32}, {64, 8}).terms, 0u);
  EXPECT_EQ(ErrorOf({16}, {64, 32}, {64, 8}).terms, 0u);
  EXPECT_EQ(ErrorOf({16}, {4, 16, 5, 5}, {}).terms, 100u);  // a convolution
}

// Rows of grad_output; of each feature `sum` is left, as far as float32 holds it. `noise`: error.
Numbers Terms(double sum, double noise, uint32_t seed) {
  std::mt19937 values(1), errors(seed);
  std::normal_distribution<double> normal(0, 1);
  std::vector<double> terms(kRows * kFeatures);
  for (double& x : terms) x = normal(values);
  Numbers rounded(terms.size());
  for (int64_t feature = 0; feature < kFeatures; ++feature) {
    double mean = 0;
    for (int64_t row = 0; row < kRows; ++row) mean += terms[row * kFeatures + feature] / kRows;
    for (int64_t row = 0; row < kRows; ++row) {
      const int64_t i = row * kFeatures + feature;
      rounded[i] = static_cast<float>(terms[i] - mean + sum / kRows + noise * normal(errors));
    }
  }
  return rounded;
}

Numbers SumsOf(const Numbers& terms) {
  Numbers sums(kFeatures);
  for (int64_t i = 0; i < kRows * kFeatures; ++i) sums[i % kFeatures] += terms[i];
  return sums;
}

void AddBackward(PassBuilder* pass, Role role, const std::string& arg, const Tensor& tensor) {
  const uint64_t call = pass->Begin("k", "", {});
  pass->End(call, "k", "", {{arg, tensor}});
  pass->last()->key.role = role;
  pass->last_call()->arguments = {
      {.role = Role::kGradOutput, .arg = "", .dtype = "float32", .sizes = {kRows, kFeatures}}};
}

FakeRun Backward(const Numbers& terms, const Numbers& bias, bool records_terms = true) {
  FakeRun run(1);
  PassBuilder pass = run.Pass(0, 0);
  const Tensor x = MakeTensor("float32", {kRows, kFeatures}, Numbers(kRows * kFeatures, 1));
  pass.Module("k", x, x);
  if (records_terms)
    AddBackward(&pass, Role::kGradOutput, "", MakeTensor("float32", {kRows, kFeatures}, terms));
  AddBackward(&pass, Role::kParamGrad, "bias", Vector("float32", bias));
  AddBackward(&pass, Role::kGradInput, "0", MakeTensor("float32", {kRows, kFeatures}, terms));
  return run;
}

constexpr double kNoise = 3e-7;

Numbers Times(Numbers numbers, float factor) {
  for (float& x : numbers) x *= factor;
  return numbers;
}

std::vector<std::string> Failing(const DiffReport& report) {
  std::vector<std::string> names;
  for (const Row& row : report.failing) names.push_back(ToText(row.key));
  return names;
}

TEST(GradientSums, WhatRoundingLeavesOfASumMayDiffer) {
  const Numbers a = Terms(0, 0, 1), b = Terms(0, kNoise, 2);
  const DiffReport report = DiffOk(Backward(a, SumsOf(a)), Backward(b, SumsOf(b)));
  EXPECT_EQ(report.overall, Overall::kSame) << Text(report);
  // Where the terms are equal bit by bit, another order of the additions.
  Numbers backwards(kFeatures);
  for (int64_t i = kRows * kFeatures - 1; i >= 0; --i) backwards[i % kFeatures] += a[i];
  EXPECT_EQ(DiffOk(Backward(a, SumsOf(a)), Backward(a, backwards)).overall, Overall::kSame);
  // Nothing says of what it is a sum.
  EXPECT_THAT(Failing(DiffOk(Backward(a, SumsOf(a), false), Backward(b, SumsOf(b), false))),
              testing::ElementsAre("k@param_grad#bias"));
}

TEST(GradientSums, ABiasThatIsOffByMoreIsFound) {
  const Numbers a = Terms(0, 0, 1), b = Terms(0, kNoise, 2);
  Numbers zeros(kFeatures), far = SumsOf(b);
  for (size_t i = 0; i < far.size(); ++i) far[i] += i % 2 == 0 ? 1e-4f : -1e-4f;
  for (const Numbers& wrong : {zeros, far}) {
    const DiffReport report = DiffOk(Backward(a, SumsOf(a)), Backward(b, wrong));
    EXPECT_THAT(Failing(report), testing::ElementsAre("k@param_grad#bias"));
    ASSERT_TRUE(report.origin);
    EXPECT_EQ(report.origin->row->key.arg, "bias");
  }
  EXPECT_THAT(Joined(Text(DiffOk(Backward(a, SumsOf(a)), Backward(b, far)))),
              HasSubstr("; a sum of 64 terms of rms 0.98, off by 2.8e-06 if they cancel; "));
}

// As of an LSTM: what its bias is made of are gradients of its four gates, which may be next to
// nothing; what comes into it is another thing.
TEST(GradientSums, WhatIsAsLongAsSeveralRowsIsNoSumOfThem) {
  const Numbers terms = Terms(8, 0, 1);
  Numbers gates(4 * kFeatures), wrong;
  for (size_t i = 0; i < gates.size(); ++i) gates[i] = (i % 3 == 0 ? 2e-7f : -1e-7f);
  wrong = Times(gates, 2);
  EXPECT_THAT(Failing(DiffOk(Backward(terms, gates), Backward(terms, wrong))),
              testing::ElementsAre("k@param_grad#bias"));
}

// Of a sum that does not cancel.
TEST(GradientSums, AFactorOnABiasIsFound) {
  const Numbers a = Terms(8, 0, 1), b = Terms(8, kNoise, 2);
  EXPECT_EQ(DiffOk(Backward(a, SumsOf(a)), Backward(b, SumsOf(b))).overall, Overall::kSame);
  for (const float factor : {2.0f, 0.5f, 1.001f, 0.9999f}) {
    EXPECT_THAT(Failing(DiffOk(Backward(a, SumsOf(a)), Backward(b, Times(SumsOf(b), factor)))),
                testing::ElementsAre("k@param_grad#bias"))
        << factor;
  }
}

// As of a transposed convolution: each of 8 channels is a sum over all 2,048 places.
FakeRun Convolution(const std::vector<int64_t>& in, double noise, float factor = 1) {
  std::mt19937 values(1), errors(noise > 0 ? 2 : 1);
  std::normal_distribution<double> normal(0, 1);
  Numbers bias(8);
  for (float& x : bias) {
    x = static_cast<float>(normal(values) * factor);
    x = static_cast<float>(x * (1 + noise * normal(errors)));
  }
  const auto ones = [](const std::vector<int64_t>& sizes) {
    int64_t elements = 1;
    for (const int64_t size : sizes) elements *= size;
    return MakeTensor("float32", sizes, Numbers(elements, 1));
  };
  FakeRun run(1);
  PassBuilder pass = run.Pass(0, 0);
  const std::vector<int64_t> out = {in[0], 8, 2 * in[2], 2 * in[3]};
  pass.Module("up", ones(in), ones(out));
  pass.last()->cls = "torch.nn.modules.conv.ConvTranspose2d";
  pass.last_call()->arguments = {
      {.role = Role::kInput, .arg = "0", .dtype = "float32", .sizes = in},
      {.role = Role::kOutput, .arg = "", .dtype = "float32", .sizes = out}};
  // Where a gradient is added up there is no other argument.
  const uint64_t call = pass.Begin("up", "", {});
  pass.End(call, "up", "", {{"bias", Vector("float32", bias)}});
  pass.last()->key.role = Role::kParamGrad;
  pass.last_call()->call.phase = Phase::kBackward;
  return run;
}

TEST(GradientSums, RowsAreThoseOfTheModulesCalls) {
  const FakeRun a = Convolution({8, 16, 8, 8}, 0);
  const DiffReport report = DiffOk(a, Convolution({8, 16, 8, 8}, 3e-6));
  EXPECT_EQ(report.overall, Overall::kSame) << Text(report);
  EXPECT_THAT(Failing(DiffOk(a, Convolution({8, 16, 8, 8}, 0, 1.0001f))),
              testing::ElementsAre("up@param_grad#bias"));
  // Of four places that much is no rounding.
  EXPECT_THAT(Failing(DiffOk(Convolution({1, 16, 1, 1}, 0), Convolution({1, 16, 1, 1}, 1e-5))),
              testing::ElementsAre("up@param_grad#bias"));
}

}  // namespace
}  // namespace tdump::compare
