#include "compare/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "compare/bounds.h"
#include "tests/compare/builders.h"

namespace tdump::compare {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::optional<Predicate> Expect(const std::string& text) {
  PredicateMistake mistake;
  return Predicate::Parse(text, &mistake);
}

Comparison Judge(const Tensor& a, const Tensor& b, const BoundRule& rule) {
  Comparison comparison = JudgeMeta(a.record, b.record);
  const Bound bound = LocalBoundOf({.a = a.record.dtype, .b = b.record.dtype}).bound;
  if (comparison.verdict.shape == Answer::kSame && comparison.verdict.bitwise != Answer::kSame)
    JudgeMetrics(*Measure(a.operand(), b.operand(), bound), &comparison);
  ApplyRule(rule, &comparison);
  return comparison;
}

TEST(BoundRules, TheFirstThatMatchesDecides) {
  BoundRules rules;
  EXPECT_EQ(rules.Find("any", Role::kOutput), nullptr);
  const auto named = [](const char* part) {
    return [part](const std::string& name) { return name.find(part) != std::string::npos; };
  };
  rules.Add({.matches = named("mlp"), .roles = {Role::kInput}, .where = "1"});
  rules.Add({.matches = named("mlp"), .where = "2"});
  rules.Add({.matches = {}, .where = "3"});
  EXPECT_EQ(rules.Find("0.mlp", Role::kInput)->where, "1");
  EXPECT_EQ(rules.Find("0.mlp", Role::kOutput)->where, "2");
  EXPECT_EQ(rules.Find("0.norm", Role::kOutput)->where, "3");
}

TEST(ApplyRule, ThePredicateReplacesTheBoundBothWays) {
  const Tensor a = Vector<float>("float32", {3, 4}), far = Vector<float>("float32", {3, 5});
  const Tensor near = Vector<float>("float32", {3, 4.0f + 0x1p-21f});
  EXPECT_FALSE(Judge(a, far, {.expect = Expect("max_abs <= 1")}).verdict.Fails(false));
  EXPECT_TRUE(Judge(a, far, {.expect = Expect("max_abs < 1")}).verdict.Fails(false));
  EXPECT_FALSE(Judge(a, near, {}).verdict.Fails(false));
  const Comparison strict = Judge(a, near, {.expect = Expect("max_abs == 0"), .where = "b.yaml:3"});
  EXPECT_TRUE(strict.verdict.Fails(false));
  EXPECT_THAT(strict.notes,
              testing::ElementsAre("rule b.yaml:3 'max_abs == 0': max_abs 4.768e-07"));
}

TEST(ApplyRule, NothingIsHiddenThatIsNotNamed) {
  const Tensor a = Vector<float>("float32", {1, 2}), nan = Vector<float>("float32", {kNaN, 2}),
               inf = Vector<float>("float32", {kInf, 2});
  EXPECT_TRUE(
      Judge(a, nan, {.expect = Expect("sqnr_db >= 0 or max_abs < inf")}).verdict.Fails(false));
  EXPECT_TRUE(Judge(a, nan, {.expect = Expect("inf_mismatch <= 9")}).verdict.Fails(false));
  EXPECT_TRUE(Judge(a, inf, {.expect = Expect("nan_mismatch <= 9")}).verdict.Fails(false));
  EXPECT_TRUE(Judge(a, nan, {.allow_inf = true}).verdict.Fails(false));
  EXPECT_FALSE(Judge(a, nan, {.expect = Expect("nan_mismatch <= 1")}).verdict.Fails(false));
  EXPECT_TRUE(Judge(a, nan, {.expect = Expect("nan_mismatch == 0")}).verdict.Fails(false));
  EXPECT_FALSE(Judge(a, nan, {.allow_nan = true}).verdict.Fails(false));
  EXPECT_FALSE(Judge(a, inf, {.allow_inf = true}).verdict.Fails(false));
  // The answer itself stays what it is.
  EXPECT_EQ(Judge(a, nan, {.allow_nan = true}).verdict.special, Answer::kDiffers);
}

TEST(ApplyRule, AllowingNaNDoesNotAllowTheOtherElements) {
  const Tensor a = Vector<float>("float32", {1, 2}), both = Vector<float>("float32", {kNaN, 5});
  EXPECT_TRUE(Judge(a, both, {.allow_nan = true}).verdict.Fails(false));
}

TEST(ApplyRule, DtypesAndShapesOnlyByName) {
  const Tensor a = Vector<float>("float32", {1, 2}), wide = Vector<double>("float64", {1, 2}),
               longer = Vector<float>("float32", {1, 2, 3});
  EXPECT_TRUE(Judge(a, wide, {.expect = Expect("max_abs == 0")}).verdict.Fails(false));
  EXPECT_FALSE(Judge(a, wide, {.allow_dtype = true}).verdict.Fails(false));
  EXPECT_TRUE(Judge(a, longer, {.expect = Expect("max_abs < inf"), .allow_dtype = true})
                  .verdict.Fails(false));
  EXPECT_FALSE(Judge(a, longer, {.allow_shape = true}).verdict.Fails(false));
}

TEST(ApplyRule, WhatIsAllowedStaysSo) {
  Comparison comparison;
  comparison.verdict.shape_allowed = comparison.verdict.dtype_allowed = true;
  ApplyRule({}, &comparison);
  EXPECT_TRUE(comparison.verdict.shape_allowed);
  EXPECT_TRUE(comparison.verdict.dtype_allowed);
}

TEST(ApplyRule, EqualBitsNeedNoPredicate) {
  const Tensor a = Vector<float>("float32", {1, 2});
  EXPECT_FALSE(Judge(a, a, {.expect = Expect("sqnr_db >= 30")}).verdict.Fails(true));
}

}  // namespace
}  // namespace tdump::compare
