#include "coordinator/step_rule.h"

#include <gtest/gtest.h>

namespace tdump::coordinator {
namespace {

TEST(StepRule, Words) {
  const std::pair<const char*, StepRuleKind> table[] = {
      {"auto", StepRuleKind::kAuto},         {"optimizer", StepRuleKind::kOptimizer},
      {"backward", StepRuleKind::kBackward}, {"forward", StepRuleKind::kForward},
      {"explicit", StepRuleKind::kExplicit}, {"forward:Bert", StepRuleKind::kForward},
      {"op:aten::mm", StepRuleKind::kOp},
  };
  for (const auto& [text, kind] : table) {
    Result<StepRule> rule = ParseStepRule(text);
    ASSERT_TRUE(rule.ok()) << text;
    EXPECT_EQ(rule->kind, kind) << text;
  }
}

TEST(StepRule, PatternKeepsColonsAndSearches) {
  Result<StepRule> rule = ParseStepRule("op:aten::mm$");
  ASSERT_TRUE(rule.ok());
  EXPECT_EQ(rule->pattern, "aten::mm$");
  EXPECT_TRUE(rule->matches("x aten::mm"));
  EXPECT_FALSE(rule->matches("aten::mmx"));
}

TEST(StepRule, Mistakes) {
  for (const char* text :
       {"", "optimiser", "op", "op:", "forward:", "auto:x", "optimizer:AdamW", "op:[", "Forward"}) {
    Result<StepRule> rule = ParseStepRule(text);
    EXPECT_FALSE(rule.ok()) << text;
    EXPECT_EQ(rule.status().code(), StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace tdump::coordinator
