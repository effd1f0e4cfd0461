#include "compare/bound_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/compare/builders.h"

namespace tdump::compare {
namespace {

using testing::HasSubstr;
using testing::Not;

// Of B, `factor` times A, where nothing is explained.
std::string TextOf(double factor) {
  Comparison comparison;
  comparison.metrics = MeasureOk(Vector<double>("float64", {1, 2, 4}),
                                 Vector<double>("float64", {factor, 2 * factor, 4 * factor}));
  return ExplainedText(comparison, Explanation());
}

TEST(BoundText, AFactorHasTheDigitsThatShowItIsNotOne) {
  EXPECT_THAT(TextOf(1.05), HasSubstr("B is 1.05 times A"));
  EXPECT_THAT(TextOf(2), HasSubstr("B is 2 times A"));
  EXPECT_THAT(TextOf(1 + 1.3e-6), HasSubstr("B is 1.0000013 times A"));
  EXPECT_THAT(TextOf(1 - 3.1e-5), HasSubstr("B is 0.999969 times A"));
  EXPECT_THAT(TextOf(1), Not(HasSubstr("times A")));
}

}  // namespace
}  // namespace tdump::compare
