// Two ranks of one run as a user compares them first, and what he is told to do instead.
#include <gmock/gmock.h>

#include <limits>

#include "tests/coordinator/run_image.h"
#include "tests/tools/scratch.h"
#include "tools/diff_hints.h"

namespace tdump::tools {
namespace {

using coordinator::test::BytesOf;
using coordinator::test::ProcessImage;
using coordinator::test::TensorImage;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class DiffHintsTest : public test::ScratchTest {
 protected:
  // Two ranks with these token ids and weights.
  void MakeRun(const std::string& name, const std::vector<int64_t>& tokens,
               const std::vector<float>& weights, const std::vector<std::string>& places = {}) {
    for (int32_t rank = 0; rank < 2; ++rank) {
      const auto i = static_cast<size_t>(rank);
      ProcessImage::Options options = {.rank = rank, .world = 2};
      if (!places.empty()) options.coordinates = places[i];
      const TensorImage weight = {.path = "fc",
                                  .bytes = BytesOf<float>({weights[i]}),
                                  .dtype = "float32",
                                  .bits = 32,
                                  .sizes = {1},
                                  .role = Role::kParam,
                                  .arg = "weight",
                                  .level = kPartMeta | kPartHash};
      const TensorImage input = {.path = ".",
                                 .bytes = BytesOf<int64_t>({tokens[i]}),
                                 .dtype = "int64",
                                 .bits = 64,
                                 .sizes = {1},
                                 .role = Role::kInput,
                                 .arg = "ids",
                                 .level = kPartMeta | kPartHash};
      ProcessImage(env_, Path(name), options).Tensors(0, {weight, input}).Exit(1);
    }
  }
  // Without the breaks of lines.
  std::string Diff(const std::vector<std::string>& arguments, int status) {
    const auto done = Run("tdump-diff", arguments);
    EXPECT_EQ(done.status, status) << done.out << done.err;
    std::string text;
    for (const char c : done.out) {
      const bool blank = c == ' ' || c == '\n';
      if (!blank || (!text.empty() && text.back() != ' ')) text += blank ? ' ' : c;
    }
    return text;
  }
};

TEST_F(DiffHintsTest, RanksWithBatchesOfTheirOwnAreComparedByWeights) {
  MakeRun("run", {1, 2}, {0.5f, 0.5f});
  const std::string text = Diff({"run/rank0", "run/rank1"}, 1);
  EXPECT_THAT(text, HasSubstr("weights 1 of 1 parameters equal on every rank"));
  EXPECT_THAT(text, HasSubstr("no step judged; weights agree"));
  EXPECT_THAT(text, HasSubstr("is compared by: tdump-diff run --across dp --topology dp=2"));
  EXPECT_THAT(text, Not(HasSubstr("look closer")));  // of the tokens the hash is kept
  EXPECT_THAT(Diff({"run", "--across", "dp", "--topology", "dp=2"}, 0),
              HasSubstr("SAME 1 of 1 bit for bit"));
}

TEST_F(DiffHintsTest, APathIsQuotedAsAShellNeedsIt) {
  MakeRun("my run's", {1, 2}, {0.5f, 0.5f});
  EXPECT_THAT(Diff({"my run's/rank0", "my run's/rank1"}, 1),
              HasSubstr("by: tdump-diff 'my run'\\''s' --across dp --topology dp=2"));
}

// Steps 0 and 1, and the beginning of step 2 where it was killed then.
TEST_F(DiffHintsTest, OfARunThatWasKilledTheStepsThatAreWholeAreNamed) {
  for (const char* name : {"whole", "killed"}) {
    ProcessImage process(env_, Path(name), {});
    process.Pass(0).Pass(1);
    if (std::string(name) == "killed")
      process.TornPass(2, {"a", "b"}, 8);
    else
      process.Pass(2).Pass(3).Exit(4);
  }
  EXPECT_THAT(Diff({"whole", "killed"}, 1),
              HasSubstr("whole on both sides: steps 0-1; to compare no others: --steps 0-1 "));
  EXPECT_THAT(Diff({"whole", "killed", "--steps", "0-1"}, 0), Not(HasSubstr("to compare no")));
  EXPECT_THAT(Diff({"whole", "killed", "--steps", "1-3"}, 1), HasSubstr("--steps 1 "));
}

// Three ranks, of which two were selected.
TEST_F(DiffHintsTest, OfARunOfSomeRanksTheseAreNamed) {
  for (const bool all : {true, false}) {
    for (int32_t rank = 0; rank < 3; ++rank) {
      const bool selected = all || rank != 1;
      ProcessImage process(env_, Path(all ? "all" : "some"),
                           {.rank = rank, .world = 3, .selected = selected});
      if (selected) process.Tensors(0, {{.path = "fc"}});
      process.Exit(1);
    }
  }
  const std::string text = Diff({"all", "some"}, 1);
  EXPECT_THAT(text, HasSubstr("only in A rank 1, step 0: the whole step (1 record); rank 1 was not "
                              "captured, only ranks 0,2 "));
  EXPECT_THAT(text, HasSubstr("note B was captured on ranks 0,2 of 3 only; to compare no others: "
                              "--ranks 0,2"));
  EXPECT_THAT(Diff({"some", "all"}, 1),
              HasSubstr("note A was captured on ranks 0,2 of 3 only; to"));
  EXPECT_THAT(Diff({"all", "some", "--ranks", "0,2"}, 0), Not(HasSubstr("captured on")));
  EXPECT_THAT(Diff({"all", "some", "--ranks", "0-1"}, 1), HasSubstr("no others: --ranks 0"));
  EXPECT_THAT(Diff({"some", "some"}, 0), Not(HasSubstr("captured on")));
}

TEST_F(DiffHintsTest, APatternThatMatchesNothingGetsNamesThatComeNear) {
  for (const char* name : {"a", "b"})
    ProcessImage(env_, Path(name), {})
        .Tensors(0, {{.path = "encoder.dense"}, {.path = ".", .root = "CrossEntropyLoss"}})
        .Add(io::OperatorCountSection{"", "encoder.dense", "", 1, 1, 0})
        .Add(io::OperatorCountSection{"CrossEntropyLoss", ".", "", 1, 1, 0})
        .Exit(1);
  EXPECT_THAT(Diff({"a", "b", "--allow-failed", "encoder.dens$"}, 0),
              HasSubstr("that it applies to. Near: 'encoder.dense'"));
  EXPECT_THAT(Diff({"a", "b", "--dims", "B:CrossEntropy_Loss@output: b"}, 0),
              HasSubstr("Near: 'CrossEntropyLoss'"));
  EXPECT_THAT(Diff({"a", "b", "--select", "encodr"}, 2), HasSubstr("Near: 'encoder.dense'"));
}

TEST_F(DiffHintsTest, AWeightThatDiffersIsNamed) {
  MakeRun("run", {1, 2}, {0.5f, 0.25f});
  EXPECT_THAT(Diff({"run/rank0", "run/rank1"}, 1), HasSubstr("not on rank 1: fc.weight"));
}

TEST_F(DiffHintsTest, TheAxisIsNamedWhereTheRunHasIt) {
  MakeRun("dp", {1, 2}, {0.5f, 0.5f}, {"dp=0", "dp=1"});
  MakeRun("tp", {1, 2}, {0.5f, 0.5f}, {"tp=0", "tp=1"});
  EXPECT_THAT(Diff({"dp/rank0", "dp/rank1"}, 1), HasSubstr("tdump-diff dp --across dp "));
  EXPECT_THAT(Diff({"tp/rank0", "tp/rank1"}, 1), Not(HasSubstr("--across")));
}

TEST_F(DiffHintsTest, OtherRunsAndEqualInputsNeedNoHint) {
  MakeRun("a", {1, 1}, {0.5f, 0.5f});
  MakeRun("b", {2, 2}, {0.5f, 0.5f});
  EXPECT_THAT(Diff({"a/rank0", "b/rank1"}, 1), Not(HasSubstr("--across")));
  EXPECT_THAT(Diff({"a/rank0", "a/rank1"}, 0), Not(HasSubstr("--across")));
}

TEST_F(DiffHintsTest, NanThatARuleAllowsIsNotSaidToBeOnBothSides) {
  for (const std::string name : {"a", "b"}) {
    const float value = name == "a" ? 1.0f : std::numeric_limits<float>::quiet_NaN();
    const TensorImage output = {.path = "fc",
                                .bytes = BytesOf<float>({value, 2.0f}),
                                .dtype = "float32",
                                .bits = 32,
                                .sizes = {2}};
    const TensorImage other = {.path = "act"};
    ProcessImage(env_, Path(name), {}).Tensors(0, {output, other}).Exit(1);
  }
  ASSERT_TRUE(
      WriteFileAtomically(env_, Path("bounds.yaml"), "bounds: [{name: '.', allow: [nan]}]\n", 0600)
          .ok());
  const std::string text = Diff({"a", "b", "--bounds", Path("bounds.yaml")}, 0);
  EXPECT_THAT(text, Not(HasSubstr("NaN on both sides")));
}

TEST(RecomputeHint, IsForWhatOneSideAloneRunsAgain) {
  compare::DiffReport report;
  report.unpaired = {{.side = 'B', .key = "block.act@output#"}};
  EXPECT_EQ(RecomputeHint(report), "");
  report.unpaired.push_back({.side = 'B', .key = "block.act@output#~r"});
  EXPECT_THAT(RecomputeHint(report), AllOf(HasSubstr("B alone"), HasSubstr("'@.*~.*r$'")));
  // What differs from its first forward is no matter of course.
  report.notes = {"computed anew by a checkpoint otherwise than the first forward, in B: 1 record"};
  EXPECT_EQ(RecomputeHint(report), "");
  report.notes.clear();
  report.unpaired.push_back({.side = 'A', .key = "block.fc@output#~r"});
  EXPECT_EQ(RecomputeHint(report), "");
}

TEST_F(DiffHintsTest, PatternsOfRecordsAreFoundInWhatIsPrinted) {
  const auto make = [&](const std::string& name, float value) {
    TensorImage gradient = {.path = "output",
                            .bytes = BytesOf<float>({value}),
                            .dtype = "float32",
                            .bits = 32,
                            .sizes = {1},
                            .role = Role::kGradOutput};
    TensorImage output = gradient;
    output.role = Role::kOutput;
    output.bytes = BytesOf<float>({1});
    ProcessImage(env_, Path(name), {}).Tensors(0, {output, gradient}).Exit(1);
  };
  make("a", 1);
  make("b", 2);
  for (const char* pattern : {"@grad_output", "^output@grad_", "output, grad_output", "^output$"})
    EXPECT_EQ(Run("tdump-diff", {"a", "b", "--allow-failed", pattern}).status, 0) << pattern;
  for (const char* pattern : {"@output", "grad_output", "output, output"})
    EXPECT_EQ(Run("tdump-diff", {"a", "b", "--allow-failed", pattern}).status, 1) << pattern;
}

}  // namespace
}  // namespace tdump::tools
