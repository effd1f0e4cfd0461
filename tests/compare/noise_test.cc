#include "compare/noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/compare/job_runs.h"

namespace tdump::compare {
namespace {

const Key kOut = {.path = "mlp", .role = Role::kOutput};

Metrics Between(const std::vector<float>& a, const std::vector<float>& b) {
  const Tensor x = Vector<float>("float32", a), y = Vector<float>("float32", b);
  return *Measure(x.operand(), y.operand(), {});
}

TEST(NoiseModel, KeepsTheLargestOfTheRepeats) {
  NoiseModel noise;
  noise.Add("mlp", kOut, false, Between({3, 4}, {3, 5}));  // 1 of rms 5 / sqrt 2
  noise.Add("mlp", kOut, true, {});
  Key second = kOut;
  second.call = 1;  // of the same operator
  noise.Add("mlp", second, false, Between({3, 4}, {3, 4.5f}));
  const NoiseLevel* level = noise.Find("mlp", kOut);
  ASSERT_NE(level, nullptr);
  EXPECT_EQ(level->pairs, 3u);
  EXPECT_NEAR(level->power, 0.04, 1e-12);
  EXPECT_NEAR(level->peak, std::sqrt(2.0) / 5, 1e-12);
}

TEST(NoiseModel, TellsArgumentsAndRolesApart) {
  NoiseModel noise;
  EXPECT_TRUE(noise.empty());
  noise.Add("mlp", kOut, true, {});
  Key input = kOut;
  input.role = Role::kInput;
  EXPECT_EQ(noise.Find("mlp", input), nullptr);
  EXPECT_EQ(noise.Find("norm", kOut), nullptr);
  ASSERT_NE(noise.Find("mlp", kOut), nullptr);
  EXPECT_EQ(noise.Find("mlp", kOut)->peak, 0);
}

// Whatever repeats showed, which may be NaN too: errors are within it, a NaN of one side never is.
TEST(NoiseModel, NeverExcusesNan) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  auto noise = std::make_shared<NoiseModel>();
  const Key key = {.path = "fc", .role = Role::kOutput};
  noise->Add("fc", key, false, Between({100, 1}, {200, 1}));
  noise->Add("fc", key, false, Between({100, 1}, {200, kNan}));
  DiffOptions options;
  options.pass.noise = noise;
  const Tensor out = Matrix(1, 2, {100, 1});
  const auto diff = [&](float second, const DiffOptions& with) {
    return DiffOk(OneRank(out), OneRank(Matrix(1, 2, {150, second})), with);
  };
  EXPECT_EQ(diff(1, {}).overall, Overall::kDiffers);
  EXPECT_EQ(diff(1, options).overall, Overall::kSame);
  const DiffReport nan = diff(kNan, options);
  EXPECT_EQ(nan.overall, Overall::kDiffers);
  EXPECT_EQ(nan.counts.special, 1u);
  EXPECT_EQ(nan.counts.failing, 1u);
  EXPECT_EQ(diff(std::numeric_limits<float>::infinity(), options).counts.failing, 1u);
}

}  // namespace
}  // namespace tdump::compare
