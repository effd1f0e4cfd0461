#include "launch/tdump_run/estimate_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/run_image.h"

namespace tdump::launch {
namespace {

using ::testing::HasSubstr;

filters::Rule RuleOf(std::vector<Role> roles, std::string name = "") {
  filters::Rule rule = filters::DefaultRule();
  rule.role = std::move(roles);
  if (!name.empty()) rule.name = {name};
  rule.text = "{name: " + name + "}";
  return rule;
}

// The notes for a run of outputs of "a" under these rules.
std::string Notes(std::vector<filters::Rule> rules, bool from = true) {
  const std::unique_ptr<Env> env = NewMemoryEnv();
  coordinator::test::ProcessImage(env.get(), "run", {}).Pass(0).Pass(1).Exit(2);
  filters::Config config = filters::DefaultConfig();
  config.capture[0].rules = std::move(rules);
  io::RunRef run;
  run.path = "run";
  const auto ranks = EstimateFromRun(env.get(), run, config);
  EXPECT_TRUE(ranks.ok()) << ranks.status().message();
  return NotesOfLosses(*ranks, config, from);
}

TEST(EstimateNotes, NamesRolesThatTheRunHasNoneOf) {
  EXPECT_EQ(Notes({RuleOf({Role::kOutput})}), "");
  EXPECT_EQ(Notes({RuleOf({Role::kInput, Role::kOutput}), RuleOf({Role::kState})}),
            "  note       a lower bound: the rules ask for input, state, of which the run has "
            "none\n");
  EXPECT_EQ(Notes({RuleOf({Role::kInput})}, false), "");  // the job had been asked for them
  filters::Rule off = RuleOf({Role::kInput});
  off.level = kPartNone;
  EXPECT_EQ(Notes({off, RuleOf({Role::kOutput})}), "");
}

TEST(EstimateNotes, NamesRulesThatMatchedNothing) {
  EXPECT_THAT(Notes({RuleOf({Role::kOutput}, "nosuch"), RuleOf({Role::kOutput}, "a")}, false),
              ::testing::AllOf(HasSubstr("note       rule 1 '"), HasSubstr("nosuch"),
                               HasSubstr("' matched nothing that was looked at\n"),
                               ::testing::Not(HasSubstr("rule 2"))));
}

TEST(EstimateNotes, TellsWhatWasLostWhereItWasLooked) {
  RankEstimate rank;
  rank.lost = {{SkipReason::kMemoryLimit, 2}, {SkipReason::kDiskLimit, 3}};
  EXPECT_EQ(LostToTheDisk({rank, rank}), 6u);
  EXPECT_THAT(NotesOfLosses({rank, rank}, {}, false),
              HasSubstr("a lower bound: 4 records of the steps looked at had not been kept ("));
}

TEST(EstimateNotes, SaysNothingOfRulesThatKeepNothing) {
  filters::Rule off = RuleOf({Role::kOutput}, "nosuch");
  off.level = kPartNone;
  EXPECT_EQ(Notes({off, RuleOf({Role::kOutput}, "a")}, false), "");
  EXPECT_THAT(Notes({RuleOf({Role::kOutput}, "'level: off'")}, false),
              HasSubstr("matched nothing"));
}

TEST(EstimateNotes, TellsAFullDiskFromOneThatFails) {
  RankEstimate rank;
  rank.lost = {{SkipReason::kMemoryLimit, 2}, {SkipReason::kDiskError, 3}};
  EXPECT_EQ(WhyNoRoom({rank}, "/tmp", std::nullopt),
            "no estimate: 3 records of the steps looked at could not be written to the disk of "
            "/tmp; TMPDIR names another place for them");
  rank.lost[SkipReason::kDiskLimit] = 1;
  EXPECT_EQ(WhyNoRoom({rank}, "/tmp", 1 << 20),
            "no estimate: 4 records of the steps looked at found no room on the disk of /tmp (1.0 "
            "MiB free); TMPDIR names another place for them");
}

// For the run of one process of `world` that ended after 20 steps without a pass.
std::string WhyNoneOf(int32_t world, const filters::Config& config) {
  const std::unique_ptr<Env> env = NewMemoryEnv();
  coordinator::test::ProcessImage(env.get(), "run", {.rank = 0, .world = world}).Exit(20);
  io::RunRef run;
  run.path = "run";
  return WhyNoPass(env.get(), run, config);
}

TEST(EstimateNotes, RanksOfAnotherNodeAreSelected) {
  filters::Config config = filters::DefaultConfig();
  config.ranks = *Spec::Parse("8-15");
  EXPECT_EQ(WhyNoneOf(16, config),
            "the job ended after 20 steps; ranks 8-15 left nothing here: they recorded no step or "
            "ran on another node; set TMPDIR to a folder that all nodes share");
}

TEST(EstimateNotes, SaysWhyAJobLeftNoPass) {
  filters::Config config = filters::DefaultConfig();
  config.steps = *Spec::Parse("100-200");
  EXPECT_EQ(WhyNoneOf(1, config),
            "the job ended after 20 steps; steps 100-200 selects none, so there is nothing to "
            "estimate from");
  config.ranks = *Spec::Parse("3");
  EXPECT_EQ(WhyNoneOf(1, config),
            "the job ended after 20 steps; ranks 3 selects none of its 1 rank, so there is nothing "
            "to estimate from");
}

}  // namespace
}  // namespace tdump::launch
