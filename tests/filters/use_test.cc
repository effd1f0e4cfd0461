// `use:`: lists of rules by name.
#include "filters/use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parse.h"

namespace tdump::filters {
namespace {

using ::testing::HasSubstr;

TEST(Use, StandsForItsListUnderItsOwnNumber) {
  const Config config = Parsed(
      "filters: {f: [{name: a}, {name: b}], g: [{use: f}, {name: c}]}\n"
      "capture: [{name: first}, {use: g}, {name: last}]\n");
  std::vector<std::pair<uint32_t, std::string>> seen;
  for (const ExpandedRule& expanded : ExpandUses(config, config.capture[0]))
    seen.emplace_back(expanded.number, expanded.rule->name[0]);
  EXPECT_THAT(seen,
              ::testing::ElementsAre(std::pair(1u, "first"), std::pair(2u, "a"), std::pair(2u, "b"),
                                     std::pair(2u, "c"), std::pair(3u, "last")));
}

TEST(Use, UnknownListsHaveNearMisses) {
  EXPECT_EQ(Mistaken("filters: {small: []}\ncapture:\n  - use: smal\n"),
            "c.yaml:3:5: use: no list 'smal' in 'filters'; expected a name of 'filters'; did you "
            "mean 'small'?");
  EXPECT_THAT(Mistaken("capture: [{use: a}]\n"), HasSubstr("a list of 'filters', which is empty"));
}

TEST(Use, Cycles) {
  EXPECT_THAT(Mistaken("filters: {a: [{use: b}], b: [{use: a}]}\n"), HasSubstr("uses itself"));
  EXPECT_THAT(Mistaken("filters: {a: [{use: a}]}\ncapture: [{use: a}]\n"),
              HasSubstr("uses itself"));
}

TEST(Use, ListsThatMultiplyAreBounded) {
  std::string yaml = "filters:\n  l0: [{}, {}, {}, {}, {}, {}, {}, {}, {}, {}]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string below = "{use: l" + std::to_string(i - 1) + "}";
    yaml += "  l" + std::to_string(i) + ": [" + below;
    for (int k = 1; k < 10; ++k) yaml += ", " + below;
    yaml += "]\n";
  }
  EXPECT_THAT(Mistaken(yaml + "capture: [{use: l8}]\n"),
              HasSubstr("more than 10000 rules, 'use' expanded"));
}

TEST(Use, ChainsAreBounded) {
  std::string yaml = "filters:\n  l0: [{}]\n";
  for (int i = 1; i < 100; ++i)
    yaml += "  l" + std::to_string(i) + ": [{use: l" + std::to_string(i - 1) + "}]\n";
  EXPECT_THAT(Mistaken(yaml + "capture: [{use: l99}]\n"), HasSubstr("nested deeper than 64 lists"));
}

}  // namespace
}  // namespace tdump::filters
