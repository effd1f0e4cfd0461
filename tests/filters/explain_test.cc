#include "filters/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "filters/compiled_plan.h"
#include "filters/schema.h"
#include "parse.h"

namespace tdump::filters {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> RoleLines(const Explanation& explanation) {
  std::vector<std::string> lines;
  for (const RoleVerdict& role : explanation.roles) {
    lines.push_back(std::string(ToString(role.role)) + " " + std::string(ToString(role.phase)) +
                    " " + PrintLevel(role.level) + " " + std::to_string(role.filter_set) + "." +
                    std::to_string(role.number) +
                    (role.condition.empty() ? "" : " if " + role.condition));
  }
  return lines;
}

std::vector<std::string> Against(const Explanation& explanation) {
  std::vector<std::string> lines;
  for (const RuleVerdict& rule : explanation.rules) lines.push_back(rule.against);
  return lines;
}

Explanation Explained(const std::string& yaml, const OperatorInfo& info) {
  auto explanation = Explain(Parsed(yaml), info);
  EXPECT_TRUE(explanation.ok());
  return *explanation;
}

TEST(Explain, NamesTheKeyThatRulesARuleOut) {
  const auto explanation = Explained(
      "capture: [{name: norm, level: off}, {leaf: false}, {class: Conv}, {op: mm}, {leaf: true, "
      "level: hash}]\n",
      {.path = "encoder.mlp", .cls = "torch.nn.Linear", .leaf = true});
  EXPECT_THAT(Against(explanation),
              ElementsAre("name: norm", "leaf: false", "class: Conv", "op: mm", ""));
  EXPECT_THAT(RoleLines(explanation), ElementsAre("output forward hash 0.5"));
}

TEST(Explain, ConditionsUntilARuleDecidesAlways) {
  const auto explanation = Explained(
      "capture: [{numel: 0-15, level: off}, {arg: '^0$', role: [input, output], level: hash}, "
      "{leaf: true}, {}]\n",
      {.path = "a", .leaf = true});
  EXPECT_THAT(
      RoleLines(explanation),
      ElementsAre("input forward off 0.1 if numel: 0-15", "input forward hash 0.2 if arg: '^0$'",
                  "output forward off 0.1 if numel: 0-15", "output forward hash 0.2 if arg: '^0$'",
                  "output forward full 0.3"));
}

TEST(Explain, StateIsOfNoCallAndNeverOfTheBackward) {
  const auto lines = [](const std::string& phase) {
    return RoleLines(
        Explained("capture: [{role: [param, state], phase: " + phase + "}]\n", {.path = "a"}));
  };
  EXPECT_THAT(lines("[forward, backward]"),
              ElementsAre("param forward full 0.1", "state forward full 0.1"));
  EXPECT_THAT(lines("[backward]"), ElementsAre());
}

TEST(Explain, GradientsAreOfTheBackwardPhase) {
  const auto explanation =
      Explained("capture: [{leaf: true, role: [output, grad_output, param_grad], level: hash}]\n",
                {.path = "a", .leaf = true});
  EXPECT_THAT(RoleLines(explanation),
              ElementsAre("output forward hash 0.1", "grad_output backward hash 0.1",
                          "param_grad backward hash 0.1"));
}

TEST(Explain, AnUnknownClassAndPredicatesAreConditions) {
  const auto explanation = Explained("capture: [{class: Linear, where: 'm:f', ranks: [0, 2]}]\n",
                                     {.path = "a", .leaf = true});
  EXPECT_THAT(RoleLines(explanation),
              ElementsAre("output forward full 0.1 if class: Linear, where: m:f, ranks: '0,2'"));
}

TEST(Explain, SetsDecideEachOnItsOwn) {
  const auto explanation = Explained(
      "capture: {x: [{name: b}, {name: a, level: off}], y: [{level: hash}]}\n", {.path = "a"});
  EXPECT_THAT(RoleLines(explanation),
              ElementsAre("output forward off 0.2", "output forward hash 1.1"));
}

TEST(Explain, NothingIsCollected) {
  const auto explanation = Explained("collect: {modules: off}\n", {.path = "a", .leaf = true});
  EXPECT_THAT(Against(explanation), ElementsAre("'collect' leaves out operators of this kind"));
  EXPECT_TRUE(explanation.roles.empty());
}

}  // namespace
}  // namespace tdump::filters
