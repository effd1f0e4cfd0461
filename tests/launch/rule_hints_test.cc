#include "launch/runtime/rule_hints.h"

#include <gtest/gtest.h>

namespace tdump::launch {
namespace {

// The hints for one rule on a job with an encoder that is no leaf.
std::vector<std::string> Hints(Parts level) {
  OperatorTable operators;
  for (const char* path : {"encoder", "encoder.0", "encoder.1"}) {
    OperatorInfo info;
    info.kind = OperatorKind::kModule;
    info.path = path;
    info.cls = "Linear";
    info.leaf = info.path != "encoder";
    operators.Intern(info);
  }
  filters::Config config = filters::DefaultConfig();
  filters::Rule& rule = config.capture[0].rules[0];
  rule.leaf = true;
  rule.name = {"encoder$"};
  rule.level = level;
  const auto plan = filters::CompiledPlan::Compile(config, {.rank = 0, .world = 1, .note = {}});
  EXPECT_TRUE(plan.ok());
  for (OperatorId id = 0; id < operators.size(); ++id) (*plan)->op(id, operators.Get(id), nullptr);
  return HintsOfUnmatched(**plan, operators);
}

TEST(RuleHints, NameWhatARuleWouldTakeIfItWereALeaf) {
  EXPECT_EQ(Hints(kLevelFull),
            std::vector<std::string>{"rule 1: encoder is no leaf: its children are encoder.{0-1}; "
                                     "without `leaf: true` the rule takes it"});
}

TEST(RuleHints, SayNothingOfARuleThatKeepsNothing) { EXPECT_TRUE(Hints(kPartNone).empty()); }

}  // namespace
}  // namespace tdump::launch
