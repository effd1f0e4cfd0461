#include "collectors/device/step_budget.h"

#include <gtest/gtest.h>

namespace tdump::collectors {
namespace {

TEST(StepBudget, AShareOfTheStepOrOfTheOneBefore) {
  StepBudget budget;
  EXPECT_EQ(budget.Left(1, 0.2, 1000), 0);  // the step begins
  EXPECT_EQ(budget.Left(1, 0.2, 2000), 200);
  budget.Add(150);
  EXPECT_EQ(budget.Left(1, 0.2, 2000), 50);
  budget.Add(100);
  EXPECT_EQ(budget.Left(1, 0.2, 2000), 0);
  EXPECT_EQ(budget.Left(2, 0.2, 6000), 1000);  // the step before took 5,000
  EXPECT_EQ(budget.Left(2, 0.2, 16'000), 2000);
}

TEST(StepBudget, WithoutLimit) {
  StepBudget budget;
  budget.Add(1'000'000);
  EXPECT_EQ(budget.Left(1, 1.0, 5), INT64_MAX);
}

}  // namespace
}  // namespace tdump::collectors
