#include "tools/bounds_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tdump::tools {
namespace {

using testing::HasSubstr;

std::string MistakesIn(const std::string& yaml) {
  const auto rules = ParseBounds(yaml, "b.yaml");
  return rules.ok() ? "none" : std::string(rules.status().message());
}

TEST(ParseBounds, ReadsRulesInOrder) {
  const auto rules = ParseBounds(
      "bounds:\n"
      "  - {name: 'mlp\\.down', expect: sqnr_db >= 30}\n"
      "  - {name: [embed, lm_head], role: output, expect: max_abs <= 1e-3 and nan_mismatch == 0}\n"
      "  - {name: norm, role: [param, input], compute: bf16, allow: [dtype, nan]}\n",
      "some/dir/b.yaml");
  ASSERT_TRUE(rules.ok()) << rules.status().message();
  const auto* down = rules->Find("0.mlp.down", Role::kInput);
  ASSERT_NE(down, nullptr);
  EXPECT_EQ(down->expect->text(), "sqnr_db >= 30");
  EXPECT_EQ(down->where, "b.yaml:2");
  EXPECT_EQ(rules->Find("0.mlpXdown", Role::kInput), nullptr);
  EXPECT_EQ(rules->Find("lm_head", Role::kOutput)->where, "b.yaml:3");
  EXPECT_EQ(rules->Find("lm_head", Role::kInput), nullptr);
  const auto* norm = rules->Find("final_norm", Role::kParam);
  ASSERT_NE(norm, nullptr);
  EXPECT_FALSE(norm->expect);
  EXPECT_EQ(norm->compute->name, "bfloat16");
  EXPECT_TRUE(norm->allow_dtype && norm->allow_nan);
  EXPECT_FALSE(norm->allow_inf || norm->allow_shape);
}

TEST(ParseBounds, APlainListWillDo) {
  const auto rules = ParseBounds("- expect: sqnr_db >= 30\n", "b.yaml");
  ASSERT_TRUE(rules.ok()) << rules.status().message();
  EXPECT_NE(rules->Find("anything", Role::kGradInput), nullptr);
}

TEST(ParseBounds, NamesPlaceExpectationAndNearMiss) {
  struct Case {
    const char* yaml;
    std::vector<const char*> parts;
  };
  const Case cases[] = {
      {"bounds: [{name: mlp, expect: snqr_db >= 30}]",
       {"b.yaml:1:30: expect: 'snqr_db' is no metric", "expected sqnr_db, cosine",
        "did you mean 'sqnr_db'?"}},
      // The condition starts in column 25, behind a quote; "=>" is its character 8.
      {"bounds:\n  - {name: a, expect: 'max_abs => 3'}",
       {"b.yaml:2:32: expect: unexpected '='", "one of <, <="}},
      {"bounds:\n  - name: a\n    expect: max_abs <",
       {"b.yaml:3:22: expect: the condition ends here", "a number"}},
      {"bounds: [{nme: a, expect: max_abs < 1}]",
       {"b.yaml:1:11: unknown key 'nme'", "did you mean 'name'?"}},
      {"bound: []", {"b.yaml:1:1: unknown key 'bound'", "did you mean 'bounds'?"}},
      {"bounds: [{name: 'a(b', expect: max_abs < 1}]",
       {"b.yaml:1:17: ", "missing closing parenthesis"}},
      {"bounds: [{name: a, role: outputs, expect: max_abs < 1}]",
       {"b.yaml:1:26: ", "did you mean 'output'?"}},
      {"bounds: [{name: a, compute: fp7}]", {"b.yaml:1:29: ", "expected one of fp64"}},
      {"bounds: [{name: a, allow: [dtypes]}]", {"b.yaml:1:28: ", "did you mean 'dtype'?"}},
      {"bounds: [{name: a}]",
       {"b.yaml:1:10: a rule that asks for nothing", "expect, compute or allow"}},
      {"bounds: [{name: [], expect: max_abs < 1}]", {"b.yaml:1:17: ", "selects nothing"}},
      {"bounds: [{name: a, role: [], expect: max_abs < 1}]", {"selects nothing"}},
      {"bounds: [{name: a, expect: [1]}]", {"b.yaml:1:28: "}},
      {"bounds: [mlp]", {"b.yaml:1:10: ", "a rule, such as"}},
      {"bounds: []", {"b.yaml:1:9: ", "a list of rules"}},
      {"bounds: 3", {"b.yaml:1:9: ", "a list of rules"}},
      {"", {"a list of rules"}},
      {"bounds: [{expect: max_abs < 1, expect: max_abs < 2}]", {"expect"}},
      {"bounds: [", {"b.yaml:"}},
  };
  for (const Case& c : cases) {
    const std::string text = MistakesIn(c.yaml);
    for (const char* part : c.parts) EXPECT_THAT(text, HasSubstr(part)) << c.yaml;
  }
}

TEST(ParseBounds, TellsEveryMistakeAtOnce) {
  const std::string text =
      MistakesIn("bounds:\n  - {name: a, expect: foo < 1}\n  - {name: b, expect: max_abs < x}\n");
  EXPECT_THAT(text, HasSubstr("b.yaml:2:23: "));
  EXPECT_THAT(text, HasSubstr("b.yaml:3:33: "));
}

TEST(ParseBounds, HostileFilesAreRefused) {
  EXPECT_NE(MistakesIn(std::string(100'000, '[')), "none");
  EXPECT_NE(MistakesIn("a: &a [*a]\nbounds: *a"), "none");
  EXPECT_NE(MistakesIn("bounds: [{name: \"\\d\", expect: max_abs < 1}]"), "none");
  EXPECT_NE(MistakesIn("bounds: [{expect: '" + std::string(50'000, '(') + "'}]"), "none");
  EXPECT_NE(MistakesIn(std::string("bounds: [{name: a\xff, expect: max_abs < 1}]")), "none");
}

TEST(ReadBoundsFile, NamesTheFileThatIsNotThere) {
  const auto rules = ReadBoundsFile("/nowhere/b.yaml");
  ASSERT_FALSE(rules.ok());
  EXPECT_THAT(rules.status().message(), HasSubstr("/nowhere/b.yaml"));
}

}  // namespace
}  // namespace tdump::tools
