#include "compare/unpaired.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

const Tensor kValue = Vector<float>("float32", {1, 2});

struct Capture {
  std::string config;
  std::vector<std::string> modules;
  bool gradients = false;
};

FakeRun RunOf(const Capture& capture) {
  FakeRun run(1);
  run.identity(0)->config_hash = capture.config;
  PassBuilder pass = run.Pass(0, 0);
  for (const std::string& module : capture.modules) {
    pass.End(pass.Begin(module, "", {}), module, "", {{"", kValue}});
    if (!capture.gradients) continue;
    pass.Param(module, "", kValue);
    pass.last()->key.role = Role::kGradOutput;
  }
  return run;
}

std::vector<std::string> NotesOf(const Capture& a, const Capture& b) {
  return DiffOk(RunOf(a), RunOf(b)).notes;
}

// Listed on either side, with the nearest names of the other one, and failed.
TEST(UnpairedRecords, AreListedWithTheNearestOfTheOtherSide) {
  FakeRun a = RunOf({"1", {"same", "layers.4.mlp.down", "gone"}}),
          b = RunOf({"1", {"same", "layers.4.mlp.down_proj", "layers.5.mlp.down"}});
  const DiffReport report = DiffOk(a, b);
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.unpaired_a, 2u);
  EXPECT_EQ(report.counts.unpaired_b, 2u);
  const std::string text = Joined(Text(report));
  EXPECT_THAT(text, HasSubstr("DIFFERS 4 records without a partner; the 1 pair agree"));
  EXPECT_THAT(text, HasSubstr("only in A rank 0, step 0: layers.4.mlp.down@output#; nearest: "
                              "layers.4.mlp.down_proj@output#, layers.5.mlp.down@output#"));
  EXPECT_THAT(text, HasSubstr("only in A rank 0, step 0: gone@output# "));
  EXPECT_THAT(text, HasSubstr("only in B rank 0, step 0: layers.4.mlp.down_proj@output#; nearest: "
                              "layers.4.mlp.down@output#"));
  DiffOptions options;
  options.allow_unpaired = Named("layers");
  EXPECT_EQ(DiffOk(a, b, options).overall, Overall::kDiffers);
  options.allow_unpaired = [](const std::string& name) { return name != "same"; };
  EXPECT_EQ(DiffOk(a, b, options).overall, Overall::kSame);
}

TEST(RulesHint, RolesThatOnlyOneRunCapturedAreNamed) {
  EXPECT_THAT(NotesOf({"1", {"fc", "norm"}, true}, {"2", {"fc", "norm"}}),
              Contains(HasSubstr("captured with different rules: if that is why records are "
                                 "without a partner, --allow-unpaired '@grad_output#' lists")));
}

TEST(RulesHint, OperatorsThatOnlyOneRunCapturedAreLeftToTheUser) {
  EXPECT_THAT(NotesOf({"1", {"fc"}}, {"2", {"fc", "norm"}}),
              Contains(HasSubstr("--allow-unpaired RE lists those that RE names and does not "
                                 "count them")));
}

TEST(RulesHint, TheOptionThatIsNamedDoesIt) {
  DiffOptions options;
  options.allow_unpaired = {NameFilter(), Named("@grad_output#")};
  EXPECT_EQ(
      DiffOk(RunOf({"1", {"fc", "norm"}, true}), RunOf({"2", {"fc", "norm"}}), options).overall,
      Overall::kSame);
}

TEST(RulesHint, NothingElseIsOne) {
  const auto none = Not(Contains(HasSubstr("--allow-unpaired")));
  EXPECT_THAT(NotesOf({"1", {"fc"}}, {"1", {"fc", "norm"}}), none);        // the same rules
  EXPECT_THAT(NotesOf({"1", {"fc", "old"}}, {"2", {"fc", "new"}}), none);  // renamed, perhaps
  FakeRun longer = RunOf({"1", {"fc"}});
  longer.Pass(0, 1).Module("fc", kValue, kValue);
  EXPECT_THAT(DiffOk(longer, RunOf({"2", {"fc"}})).notes, none);  // other steps
}

}  // namespace
}  // namespace tdump::compare
