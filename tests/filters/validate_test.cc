// What only the finished settings show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parse.h"

namespace tdump::filters {
namespace {

using ::testing::HasSubstr;

std::string Invalid(const std::string& yaml, int world = 0) {
  return ValidateForWorld(Parsed(yaml), world).message();
}

TEST(Validate, RanksOutOfRange) {
  EXPECT_EQ(Invalid("steps: 0\nranks: 0-7\n", 4),
            "c.yaml:2:8: ranks: 0-7 is out of range: the job has 4 ranks; expected numbers from 0 "
            "to 3, or -1 for the "
            "last");
  EXPECT_EQ(Invalid("ranks: 1\n", 1),
            "c.yaml:1:8: ranks: 1 is out of range: the job has 1 rank; expected 0");
  EXPECT_THAT(Invalid("ranks: [-5]\n", 4), HasSubstr("-5 is out of range"));
  EXPECT_EQ(Invalid("ranks: [0, 3, -4]\n", 4), "");
  EXPECT_EQ(Invalid("ranks: 0-7\n", 0), "");  // not known
  EXPECT_EQ(Invalid("capture:\n  - {leaf: true, ranks: 9}\n", 4),
            "c.yaml:2:5: ranks: 9 is out of range: the job has 4 ranks; expected numbers from 0 to "
            "3, or -1 for the "
            "last");
}

TEST(Validate, PredicateFiles) {
  EXPECT_EQ(Invalid("capture:\n  - {where: '/no/such.py:f'}\n"),
            "c.yaml:2:5: where: cannot read '/no/such.py': No such file or directory (ENOENT)");
}

TEST(Validate, RulesThatCanMatchNothing) {
  EXPECT_EQ(Invalid("capture:\n  - {op: 'aten::mm'}\n"),
            "c.yaml:2:5: rule with 'op', but ATen operators are not collected; expected 'collect: "
            "{aten: on}' beside "
            "it");
  EXPECT_THAT(Invalid("collect: {aten: on}\ncapture:\n  - {op: 'aten::mm', role: [grad_output]}\n"),
              HasSubstr("rule with 'op' and roles of gradients only matches nothing"));
  EXPECT_THAT(Invalid("collect: {aten: on}\ncapture:\n  - {op: 'aten::mm', leaf: false}\n"),
              HasSubstr("matches nothing"));
  EXPECT_EQ(Invalid("collect: {aten: on}\ncapture:\n  - {op: 'aten::mm'}\n"), "");
}

TEST(Validate, RulesForKernels) {
  EXPECT_EQ(Invalid("capture:\n  - {kernel: mm}\n"),
            "c.yaml:2:5: rule with 'kernel', but compiled kernels are not collected; expected "
            "'collect: {kernels: save}' beside it");
  const std::string on = "collect: {kernels: names, aten: on}\ncapture:\n";
  EXPECT_EQ(Invalid(on + "  - {kernel: mm}\n"), "");
  EXPECT_EQ(Invalid(on + "  - {kernel: mm, role: [before]}\n"), "");
  EXPECT_EQ(Invalid(on + "  - {kernel: mm, level: off}\n"), "");
  EXPECT_THAT(Invalid(on + "  - {kernel: mm, role: [output]}\n"),
              HasSubstr("neither of the roles"));
  EXPECT_THAT(Invalid(on + "  - {kernel: mm, op: mm}\n"), HasSubstr("matches nothing"));
  EXPECT_THAT(Invalid(on + "  - {kernel: mm, leaf: false}\n"), HasSubstr("matches nothing"));
}

TEST(Validate, BreadcrumbsOfNothing) {
  EXPECT_THAT(Invalid("breadcrumbs: {ranks: all}\n"),
              HasSubstr("nothing leaves breadcrumbs, kernels are not collected; expected 'collect: "
                        "{kernels: names}' beside it"));
  EXPECT_EQ(Invalid("collect: {kernels: save}\nbreadcrumbs: {ranks: all}\n", 4), "");
  EXPECT_EQ(Invalid("collect: {kernels: save}\nbreadcrumbs: {ranks: [0, -1]}\n", 4), "");
  EXPECT_THAT(Invalid("collect: {kernels: save}\nbreadcrumbs: {ranks: 4}\n", 4),
              HasSubstr("breadcrumbs.ranks: 4 is out of range: the job has 4 ranks"));
}

TEST(Validate, AllAtOnceInTheListsToo) {
  const std::string told =
      Invalid("filters:\n  f:\n    - {op: x}\ncapture:\n  - {op: y}\nranks: 9\n", 2);
  EXPECT_THAT(told, HasSubstr("c.yaml:3:7: rule with 'op'"));
  EXPECT_THAT(told, HasSubstr("c.yaml:5:5: rule with 'op'"));
  EXPECT_THAT(told, HasSubstr("c.yaml:6:8: ranks"));
}

}  // namespace
}  // namespace tdump::filters
