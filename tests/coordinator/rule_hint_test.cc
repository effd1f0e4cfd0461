#include "coordinator/rule_hint.h"

#include <gtest/gtest.h>

namespace tdump::coordinator {
namespace {

TEST(RuleLabel, HasThePatternOrTheText) {
  EXPECT_EQ(RuleLabel(3, "{name: [fc1, fc2]}", "fc1"), "rule 3 'fc1'");
  EXPECT_EQ(RuleLabel(3, "{leaf: true}", ""), "rule 3 '{leaf: true}'");
}

TEST(IsOff, ReadsTheKeyAndNoPattern) {
  EXPECT_TRUE(IsOff("{name: drop, level: off}"));
  EXPECT_TRUE(IsOff("{level: off, name: 'it, level'}"));
  EXPECT_TRUE(IsOff("{name: don't, level: off}"));
  EXPECT_FALSE(IsOff("{name: drop, level: full}"));
  EXPECT_FALSE(IsOff("{name: [' level: off'], level: full}"));
  EXPECT_FALSE(IsOff("{name: \"{level: off}\"}"));
  EXPECT_FALSE(IsOff("{level: offset}"));
  EXPECT_FALSE(IsOff("{sublevel: off}"));
}

}  // namespace
}  // namespace tdump::coordinator
