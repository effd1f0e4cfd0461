// Momenta that are made of gradients over their sizes, and updates that are made of a momentum and
// the gradient beside it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "compare/report.h"
#include "tests/compare/trained_runs.h"

namespace tdump::compare {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Change = std::function<void(Numbers* numbers)>;

const Numbers kOfA = Gradient(0, 1), kOfB = Gradient(1e-6, 2);

std::vector<std::string> Failing(const FakeRun& a, const FakeRun& b) {
  std::vector<std::string> names;
  for (const Row& row : DiffOk(a, b).failing)
    names.push_back(std::to_string(row.step_b) + " " + row.key.arg);
  return names;
}

// RMSprop with momentum of two steps of one gradient each. `change`: of the momentum of step 1.
FakeRun RmsProp(const Numbers& first, const Numbers& second, const Change& change = {},
                float decay = 0.9f) {
  FakeRun run(1);
  Numbers weights = Weights(), momentum(kCount, 0), squares(kCount, 0);
  for (const uint64_t step : {0, 1, 2}) {
    PassBuilder pass = run.Pass(0, step);
    Add(&pass, Role::kParam, "weight", weights);
    pass.Module("fc", kInput, kWhole);
    if (step == 2) break;
    const Numbers& gradient = step == 0 ? first : second;
    AddGradient(&pass, gradient);
    for (size_t i = 0; i < kCount; ++i) {
      squares[i] = 0.99f * squares[i] + 0.01f * gradient[i] * gradient[i];
      momentum[i] = decay * momentum[i] + gradient[i] / (std::sqrt(squares[i]) + 1e-8f);
    }
    if (step == 1 && change) change(&momentum);
    for (size_t i = 0; i < kCount; ++i) weights[i] -= 0.1f * kRate * momentum[i];
    Add(&pass, Role::kState, "weight.momentum_buffer", momentum);
    Add(&pass, Role::kState, "weight.square_avg", squares);
  }
  return run;
}

Numbers Backwards(Numbers numbers) {
  std::reverse(numbers.begin(), numbers.end());
  return numbers;
}

// None is next to nothing.
Numbers Large(double noise) {
  Numbers gradient = Gradient(noise, 3);
  for (size_t i = 0; i < kCount; ++i) gradient[i] += i % 2 == 0 ? 1 : -1;
  return gradient;
}

const FakeRun kA = RmsProp(kOfA, Backwards(kOfA));

TEST(OptimizerMomenta, OfStepsAreExplainedByTheirElements) {
  const auto turned = [](size_t i) { return std::signbit(kOfA[i]) != std::signbit(kOfB[i]); };
  size_t count = 0;
  for (size_t i = 0; i < kCount; ++i) count += turned(i);
  ASSERT_GT(count, 2u);  // whose steps have the other sign
  EXPECT_THAT(Failing(kA, RmsProp(kOfB, Backwards(kOfB))), IsEmpty());
  // What was off stays in the momentum, though hardly anything is any more.
  EXPECT_THAT(Failing(RmsProp(kOfA, Large(0)), RmsProp(kOfB, Large(1e-6))), IsEmpty());
}

TEST(OptimizerMomenta, OneThatItsStepDoesNotMakeIsFound) {
  const auto scaled = [](Numbers* momentum) {
    for (float& m : *momentum) m *= 1.001f;
  };
  const auto one_off = [](Numbers* momentum) { (*momentum)[9] += 0.01f; };
  const auto stale = [](Numbers* momentum) { (*momentum)[9] = 10; };
  // Its gradient is rounding, which makes no more than the largest step.
  const auto far = [](Numbers* momentum) { (*momentum)[7] += 30; };
  for (const Change& change : std::vector<Change>{scaled, one_off, stale, far})
    EXPECT_THAT(Failing(kA, RmsProp(kOfB, Backwards(kOfB), change)),
                testing::Contains("1 weight.momentum_buffer"));
  EXPECT_THAT(Failing(kA, RmsProp(kOfB, Backwards(kOfB), {}, 0.899f)),
              testing::Contains("1 weight.momentum_buffer"));
}

// Gradient descent keeps one of gradients, which is as exact as these.
TEST(OptimizerMomenta, OfGradientsAreHeldToTheirGradients) {
  const auto descent = [](const Numbers& gradient, float off) {
    FakeRun run(1);
    PassBuilder pass = run.Pass(0, 0);
    pass.Module("fc", kInput, kWhole);
    AddGradient(&pass, gradient);
    Numbers momentum = gradient;
    momentum[0] += off;  // of an element that is next to nothing
    Add(&pass, Role::kState, "weight.momentum_buffer", momentum);
    return run;
  };
  EXPECT_THAT(Failing(descent(kOfA, 0), descent(kOfB, 0)), IsEmpty());
  EXPECT_THAT(Failing(descent(kOfA, 0), descent(kOfB, 1e-3f)),
              ElementsAre("0 weight.momentum_buffer"));
}

// NAdam: half of the gradient and half of the mean, over sizes that are 1. `is_nadam`: as the
// number beside it tells.
FakeRun Nadam(const Numbers& gradient, bool is_nadam = true, float rate = kRate) {
  FakeRun run(1);
  PassBuilder first = run.Pass(0, 0);
  Add(&first, Role::kParam, "weight", Numbers(kCount, 0));
  first.Module("fc", kInput, kWhole);
  AddGradient(&first, gradient);
  const Numbers before = Backwards(Gradient(0, 1));
  Numbers mean, weights;
  for (size_t i = 0; i < kCount; ++i) {
    mean.push_back(0.9f * before[i] + 0.1f * gradient[i]);
    weights.push_back(-rate * (gradient[i] / 2 + mean[i] / 2));
  }
  Add(&first, Role::kState, "weight.exp_avg", mean);
  Add(&first, Role::kState, "weight.exp_avg_sq", Numbers(kCount, 1));
  if (is_nadam) {
    const Tensor product = MakeTensor<float>("float32", {}, {0.9f});
    first.Param("fc", "weight.mu_product", product);
    first.last()->key.role = Role::kState;
    first.last()->payload = product.record.payload;
  }
  PassBuilder second = run.Pass(0, 1);
  Add(&second, Role::kParam, "weight", weights);
  second.Module("fc", kInput, kWhole);
  return run;
}

TEST(OptimizerMomenta, NadamsGradientExplainsItsUpdateToo) {
  EXPECT_THAT(Failing(Nadam(kOfA), Nadam(kOfB)), IsEmpty());
  EXPECT_THAT(Failing(Nadam(kOfA, false), Nadam(kOfB, false)), ElementsAre("1 weight"));
  for (const float factor : {0.999f, 1.001f})
    EXPECT_THAT(Failing(Nadam(kOfA), Nadam(kOfB, true, factor * kRate)), ElementsAre("1 weight"));
}

}  // namespace
}  // namespace tdump::compare
