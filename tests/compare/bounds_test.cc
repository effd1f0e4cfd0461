#include "compare/bounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/compare/builders.h"

namespace tdump::compare {
namespace {

LocalBound Local(const char* a, const char* b, OperatorClass kind, uint64_t length,
                 const char* compute = nullptr) {
  static std::optional<Precision> precision;
  if (compute != nullptr) precision = *ParsePrecision(compute);
  return LocalBoundOf({.a = DTypeOf(a),
                       .b = DTypeOf(b),
                       .reduction = {.kind = kind, .length = length, .exact = true},
                       .compute = compute == nullptr ? nullptr : &*precision});
}

TEST(LocalBound, FollowsTheCoarserDtypeAndTheReduction) {
  const auto one = OperatorClass::kElementwise;
  EXPECT_DOUBLE_EQ(Local("float32", "float32", one, 1).bound.relative, 4 * (0x1p-24 + 0x1p-24));
  EXPECT_DOUBLE_EQ(Local("float32", "bfloat16", one, 1).bound.relative, 4 * (0x1p-8 + 0x1p-24));
  EXPECT_DOUBLE_EQ(Local("bfloat16", "float32", one, 1).bound.relative, 4 * (0x1p-8 + 0x1p-24));
  EXPECT_DOUBLE_EQ(Local("float64", "float64", one, 4).bound.relative, 4 * (0x1p-53 + 2 * 0x1p-53));
  EXPECT_DOUBLE_EQ(Local("float32", "float32", OperatorClass::kProduct, 400).bound.scale,
                   4 * (0x1p-24 + 20 * 0x1p-24));
  EXPECT_EQ(Local("int32", "int32", one, 9).bound.relative, 0);
  EXPECT_EQ(Local("int32", "int32", one, 9).level.power, 0);
}

// The gradients of 16 calls are added up in the type of the parameter.
TEST(LocalBound, ASumThatIsKeptInACoarseTypeIsRoundedEachTime) {
  BoundFacts facts{.a = DTypeOf("bfloat16"),
                   .b = DTypeOf("bfloat16"),
                   .reduction = {.kind = OperatorClass::kProduct, .length = 64, .exact = true}};
  const double once = LocalBoundOf(facts).level.power;
  facts.roundings = 16;
  const LocalBound local = LocalBoundOf(facts);
  EXPECT_DOUBLE_EQ(local.bound.relative, 4 * (4 * 0x1p-8 + 8 * 0x1p-24));
  EXPECT_NEAR(local.level.power, 16 * once, 1e-3 * once);
  EXPECT_DOUBLE_EQ(local.level.gain, 0x1p-8 + 8 * 0x1p-24);  // roundings follow no signal
  EXPECT_THAT(local.bound.text, testing::HasSubstr("(sqrt(16) * 0.0039 + sqrt(64) * 6e-08"));
  // In float32 each is an addition anyway.
  facts.a = facts.b = DTypeOf("float32");
  EXPECT_DOUBLE_EQ(LocalBoundOf(facts).bound.relative, 4 * (0x1p-24 + 8 * 0x1p-24));
}

// The next scale is twice as large, or half.
TEST(LocalBound, OfScalesIsExactUnlessThePrecisionIsGiven) {
  const auto one = OperatorClass::kElementwise;
  EXPECT_EQ(Local("float8_e8m0fnu", "float8_e8m0fnu", one, 1).bound.text, "exact");
  EXPECT_EQ(Local("float8_e8m0fnu", "float8_e8m0fnu", one, 1).level.power, 0);
  EXPECT_GE(Local("float8_e8m0fnu", "float8_e8m0fnu", one, 1, "fp8").bound.relative, 2);
  EXPECT_GE(Local("float32", "float8_e8m0fnu", one, 1).bound.relative, 2);
}

TEST(LocalBound, OfAProductIsThatOfItsOperandsPrecision) {
  // 4 * (2^-8 + sqrt(1024) 2^-24 + sqrt(2) 2^-4): what comes back is float32.
  const LocalBound product = Local("float32", "float32", OperatorClass::kProduct, 1024, "fp8");
  EXPECT_DOUBLE_EQ(product.bound.relative, 4 * (0x1p-8 + 32 * 0x1p-24 + std::sqrt(2.0) * 0x1p-4));
  EXPECT_THAT(product.bound.text, testing::HasSubstr("sqrt(1024)"));
  EXPECT_THAT(product.bound.text, testing::HasSubstr("0.062 of float8_e4m3"));
  // A norm of the same run computes in bfloat16.
  const LocalBound norm = Local("float32", "float32", OperatorClass::kNormalisation, 1024, "fp8");
  EXPECT_DOUBLE_EQ(norm.bound.relative, 4 * (0x1p-8 + 32 * 0x1p-24));
  EXPECT_LT(norm.level.power, product.level.power / 100);
  // Of what nobody has listed a product is assumed.
  EXPECT_EQ(Local("float32", "float32", OperatorClass::kUnknown, 1024, "fp8").bound.relative,
            product.bound.relative);
}

TEST(LocalBound, PowerIsThatOfEvenlySpreadNumbers) {
  // By hand: 4 * 2 * (0.42466 * 2^-4)^2 = 5.6355e-3 from the operands, 4 * 2 * (0.42466 * 2^-8)^2 =
  // 2.2014e-5 from the bfloat16 around it.
  EXPECT_NEAR(Local("float32", "float32", OperatorClass::kProduct, 1, "fp8").level.power,
              5.6355e-3 + 2.2014e-5, 1e-6);
}

TEST(LevelOf, IsRelativeToTheSignal) {
  // a = {3, 4}, e = {0, 1}: power 1 / 25, rms 5 / sqrt 2, a.b / a.a = 29 / 25.
  const Tensor a = Vector<float>("float32", {3, 4}), b = Vector<float>("float32", {3, 5});
  const ErrorLevel level = LevelOf(*Measure(a.operand(), b.operand(), {}));
  EXPECT_NEAR(level.power, 0.04, 1e-12);
  EXPECT_NEAR(level.peak, 1 / (5 / std::sqrt(2.0)), 1e-12);
  EXPECT_NEAR(level.gain, 0.16, 1e-12);
}

TEST(LevelOf, NoiseHasNoGainAndAFactorIsAllGain) {
  const Tensor a = Vector<float>("float32", {1, 1, 1, 1}),
               noise = Vector<float>("float32", {1.25f, 0.75f, 1.25f, 0.75f}),
               factor = Vector<float>("float32", {1.25f, 1.25f, 1.25f, 1.25f});
  const ErrorLevel of_noise = LevelOf(*Measure(a.operand(), noise.operand(), {}));
  const ErrorLevel of_factor = LevelOf(*Measure(a.operand(), factor.operand(), {}));
  EXPECT_NEAR(of_noise.power, 0.0625, 1e-12);
  EXPECT_NEAR(of_factor.power, 0.0625, 1e-12);
  EXPECT_NEAR(of_noise.gain, 0, 1e-12);
  EXPECT_NEAR(of_factor.gain, 0.25, 1e-12);
}

TEST(LevelOf, WhatAllRowsHaveInCommonIsPartOfThePower) {
  const Tensor ones = MakeTensor<float>("float32", {2, 2}, std::vector<float>{1, 1, 1, 1});
  // In the first channel the errors are alike, in the second they cancel.
  const Tensor b =
      MakeTensor<float>("float32", {2, 2}, std::vector<float>{1.5f, 1.25f, 1.5f, 0.75f});
  const ErrorLevel level = LevelOf(*Measure(ones.operand(), b.operand(), {}));
  EXPECT_DOUBLE_EQ(level.power, (2 * 0.25 + 2 * 0.0625) / 4);
  EXPECT_DOUBLE_EQ(level.common, 2 * 0.25 / 4);
  EXPECT_DOUBLE_EQ(level.common_share(), 0.8);
  EXPECT_DOUBLE_EQ(level.gain, 0.25);
  EXPECT_DOUBLE_EQ(level.noise(), level.power - 0.0625);
  // One row: nothing tells them apart.
  const Tensor row = MakeTensor<float>("float32", {2}, std::vector<float>{1, 1});
  const Tensor other = MakeTensor<float>("float32", {2}, std::vector<float>{1.5f, 1});
  EXPECT_EQ(LevelOf(*Measure(row.operand(), other.operand(), {})).common_share(), 1);
}

TEST(LevelOf, EqualsAreZeroAndSomethingAgainstNothingIsInfinite) {
  const Tensor zero = Vector<float>("float32", {0, 0}), one = Vector<float>("float32", {1, 1});
  EXPECT_EQ(LevelOf(*Measure(zero.operand(), zero.operand(), {})).power, 0);
  EXPECT_EQ(LevelOf(*Measure(one.operand(), one.operand(), {})).peak, 0);
  EXPECT_TRUE(std::isinf(LevelOf(*Measure(zero.operand(), one.operand(), {})).power));
  EXPECT_TRUE(std::isinf(LevelOf(*Measure(one.operand(), zero.operand(), {})).peak));
}

}  // namespace
}  // namespace tdump::compare
