#include "compare/packed_explanation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tdump::compare {
namespace {

TEST(PackedExplanation, WhatWasPackedComesOut) {
  const Explanation all = {.in = {.power = 0.1, .peak = -0.0, .gain = 1e-320, .common = 4},
                           .in_known = true,
                           .bound = {.power = std::numeric_limits<double>::infinity(),
                                     .peak = 6,
                                     .gain = 0,
                                     .common = 1.0 / 3},
                           .sum = {.terms = 48, .rms = 2, .error = 0.5},
                           .within = false,
                           .follows = true};
  PackedExplanation packed;
  EXPECT_FALSE(packed.is_set());
  EXPECT_FALSE(packed->has_value());
  packed = PackedExplanation(all);
  EXPECT_TRUE(packed.is_set());
  const std::optional<Explanation>& out = packed;
  ASSERT_TRUE(out);
  EXPECT_EQ(out->in.power, 0.1);
  EXPECT_TRUE(out->in.peak == 0 && std::signbit(out->in.peak));
  EXPECT_EQ(out->in.gain, 1e-320);
  EXPECT_EQ(out->in.common, 4);
  EXPECT_TRUE(out->in_known);
  EXPECT_EQ(out->bound.power, std::numeric_limits<double>::infinity());
  EXPECT_EQ(out->bound.peak, 6);
  EXPECT_EQ(out->bound.gain, 0);
  EXPECT_EQ(out->bound.common, 1.0 / 3);
  EXPECT_EQ(out->sum.terms, 48u);
  EXPECT_EQ(out->sum.rms, 2);
  EXPECT_EQ(out->sum.error, 0.5);
  EXPECT_FALSE(out->within);
  EXPECT_TRUE(out->follows);
}

// One that says nothing is one all the same.
TEST(PackedExplanation, AnExplanationOfZerosIsNotNone) {
  const PackedExplanation packed{Explanation{}};
  EXPECT_TRUE(packed.is_set());
  EXPECT_TRUE(packed->has_value());
  EXPECT_FALSE(PackedExplanation::FromBytes("")->has_value());
  EXPECT_TRUE(PackedExplanation::FromBytes(packed.bytes())->has_value());
}

}  // namespace
}  // namespace tdump::compare
