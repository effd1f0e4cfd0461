#include "compare/noise.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/compare/builders.h"

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

}  // namespace
}  // namespace tdump::compare
