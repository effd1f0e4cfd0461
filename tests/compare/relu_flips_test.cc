#include "compare/relu_flips.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using Numbers = std::vector<float>;

std::optional<Unflipped> Measured(const Numbers& gradient_a, const Numbers& gradient_b,
                                  const Numbers& gate_a, const Numbers& gate_b) {
  const Tensor tensors[] = {Vector("float32", gradient_a), Vector("float32", gradient_b),
                            Vector("float32", gate_a), Vector("float32", gate_b)};
  const auto unflipped = MeasureUnflipped({.gradient_a = tensors[0].operand(),
                                           .gradient_b = tensors[1].operand(),
                                           .gate_a = tensors[2].operand(),
                                           .gate_b = tensors[3].operand(),
                                           .bound = {.relative = 0.01, .scale = 0.1, .text = ""},
                                           .bound_abs = 0.1});
  EXPECT_TRUE(unflipped.ok()) << unflipped.status().message();
  return *unflipped;
}

TEST(MeasureUnflipped, LeavesOutWhatIsOnTheOtherSideOf0) {
  const Numbers gate_a = {1, -1, 0.001f, 2}, gate_b = {1, -1, -0.001f, 2};
  const auto found = Measured({3, 0, 5, 4}, {3, 0, 0, 4.5f}, gate_a, gate_b);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->flipped, 1u);
  EXPECT_EQ(found->elements, 4u);
  // Of 3, 0, 4 against 3, 0, 4.5.
  EXPECT_DOUBLE_EQ(found->error.power, 0.25 / 25);
  EXPECT_DOUBLE_EQ(found->error.peak, 0.5 / std::sqrt(25.0 / 3));
  EXPECT_DOUBLE_EQ(found->error.gain, 27.0 / 25 - 1);
  EXPECT_FALSE(found->within_local);  // 0.01 * 4.5 + 0.1 is allowed
  EXPECT_TRUE(Measured({3, 0, 5, 4}, {3, 0, 0, 4.125f}, gate_a, gate_b)->within_local);
  // The gate is open in B.
  EXPECT_EQ(Measured({3, 0, 0, 4}, {3, 0, 5, 4}, gate_b, gate_a)->flipped, 1u);
}

TEST(MeasureUnflipped, AGradientThatDoesNotObeyItsGateIsNotGated) {
  const Numbers gate_a = {1, -1, 0.001f, 2}, gate_b = {1, -1, -0.001f, 2};
  EXPECT_FALSE(Measured({3, 0.5f, 5, 4}, {3, 0, 0, 4}, gate_a, gate_b));
  EXPECT_FALSE(Measured({3, 0, 5, 4}, {3, 0.5f, 0, 4}, gate_a, gate_b));
  EXPECT_FALSE(Measured({3, 0, 5, 4}, {3, 0, 5, 4}, gate_a, gate_b));  // open where x is below 0
  EXPECT_FALSE(Measured({3, 0, 5, 4}, {3, 0, 0, 4}, gate_a, gate_a));  // nothing flipped
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(Measured({3, 0, 5, 4}, {kNan, 0, 0, 4}, gate_a, gate_b));
  EXPECT_FALSE(Measured({0, 0, 5, 0}, {0, 0, 0, 0}, gate_a, gate_b));  // nothing is left
}

// A linear layer before a ReLU, in two runs whose sums were rounded otherwise; what the ReLU gave
// back is the gradient of the layer's output.
constexpr size_t kCount = 1 << 14;

Tensor TensorOf(const Numbers& numbers) {
  return MakeTensor<float>("float32", {64, static_cast<int64_t>(kCount / 64)}, numbers);
}

void AddGradient(PassBuilder* pass, const Numbers& gradient) {
  const uint64_t call = pass->Begin("up", "", {{"0", TensorOf(gradient)}});
  pass->last()->key.role = Role::kGradOutput;
  pass->last()->key.phase = Phase::kBackward;
  pass->last()->key.call = 0;
  pass->End(call, "up", "", {});
}

DiffReport InBf16(FakeRun a, FakeRun b) {
  DiffOptions options;
  options.pass.compute = *ParsePrecision("bf16");
  return DiffOk(std::move(a), std::move(b), options);
}

struct Layer {
  Numbers out_a, out_b, gradient_a, gradient_b;

  Layer() {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    std::normal_distribution<float> noise(0, static_cast<float>(std::pow(10, -52.0 / 20)));
    for (size_t i = 0; i < kCount; ++i) {
      const float x = normal(random), g = normal(random);
      const float other_x = x + noise(random), other_g = g + noise(random);
      out_a.push_back(x);
      out_b.push_back(other_x);
      gradient_a.push_back(x > 0 ? g : 0);
      gradient_b.push_back(other_x > 0 ? other_g : 0);
    }
  }
  static FakeRun RunOf(const Numbers& out, const Numbers& gradient) {
    FakeRun run(1);
    PassBuilder pass = run.Pass(0, 0);
    pass.Module("up", Vector<float>("float32", {1, 2}), TensorOf(out));
    AddGradient(&pass, gradient);
    return run;
  }
  DiffReport Diff() const { return InBf16(RunOf(out_a, gradient_a), RunOf(out_b, gradient_b)); }
  // An element that is let through on both sides, and far from 0.
  size_t Large() const {
    for (size_t i = 0; i < kCount; ++i) {
      if (out_a[i] > 0.5f && gradient_a[i] > 2) return i;
    }
    return kCount;
  }
};

TEST(ReluFlips, ARunWithoutAFaultIsTheSame) {
  const DiffReport report = Layer().Diff();
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_THAT(report.notes,
              Contains(HasSubstr("judged without elements whose ReLU flipped (1 pair)")));
}

TEST(ReluFlips, FaultsOfTheBackwardAreSeenThroughThem) {
  Layer scaled;
  for (float& g : scaled.gradient_b) g *= 1.05f;
  EXPECT_EQ(scaled.Diff().overall, Overall::kDiffers);
  EXPECT_EQ(scaled.Diff().origin->row->key.role, Role::kGradOutput);
  Layer lost;  // one element, though it was let through
  lost.gradient_b.at(lost.Large()) = 0;
  EXPECT_EQ(lost.Diff().overall, Overall::kDiffers);
  Layer shifted;  // the gate was that of the neighbours
  for (size_t i = 0; i + 1 < kCount; ++i)
    shifted.gradient_b[i] = shifted.out_b[i + 1] > 0 ? shifted.gradient_a[i] : 0;
  EXPECT_EQ(shifted.Diff().overall, Overall::kDiffers);
}

// Of `outputs` of the layer the last one alone is what the gradient was gated by.
TEST(ReluFlips, SoManyTensorsOfAModuleAreTried) {
  const auto overall = [](size_t outputs) {
    const Layer layer;
    const auto run_of = [&](Numbers out, const Numbers& gradient) {
      FakeRun run(1);
      PassBuilder pass = run.Pass(0, 0);
      std::vector<PassBuilder::Argument> returned(outputs - 1);
      std::reverse(out.begin(), out.end());
      for (size_t i = 0; i < returned.size(); ++i) returned[i] = {std::to_string(i), TensorOf(out)};
      std::reverse(out.begin(), out.end());
      returned.push_back({std::to_string(returned.size()), TensorOf(out)});
      pass.End(pass.Begin("up", "", {}), "up", "", returned);
      AddGradient(&pass, gradient);
      return run;
    };
    return InBf16(run_of(layer.out_a, layer.gradient_a), run_of(layer.out_b, layer.gradient_b))
        .overall;
  };
  EXPECT_EQ(overall(16), Overall::kSame);
  EXPECT_EQ(overall(20), Overall::kDiffers);
}

// What the layer gave is wrong: that no rounding put its elements on the other side.
TEST(ReluFlips, AForwardOutsideItsBoundExplainsNothing) {
  Layer layer;
  for (size_t i = 0; i < kCount; ++i) {
    layer.out_b[i] += 0.25f;
    if (layer.out_b[i] > 0 && layer.gradient_b[i] == 0) layer.gradient_b[i] = 1;
  }
  const DiffReport report = layer.Diff();
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.failing, 2u);
  EXPECT_EQ(report.origin->row->key.role, Role::kOutput);
  EXPECT_THAT(report.notes, IsEmpty());
}

}  // namespace
}  // namespace tdump::compare
