// What tdump-view says of records, and what a user can do with it.
#include <gmock/gmock.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/utf8.h"
#include "tests/coordinator/run_image.h"
#include "tests/tools/scratch.h"

namespace tdump::tools {
namespace {

using coordinator::test::BytesOf;
using coordinator::test::ProcessImage;
using coordinator::test::TensorImage;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

TensorImage Floats(const std::string& path, const std::vector<float>& values,
                   Parts level = kLevelFull) {
  return {.path = path,
          .bytes = BytesOf(values),
          .dtype = "float32",
          .bits = 32,
          .sizes = {static_cast<int64_t>(values.size())},
          .level = level};
}

class ViewTextsTest : public test::ScratchTest {
 protected:
  void MakeRun(const std::vector<TensorImage>& tensors) {
    ProcessImage(env_, Path("run"), {}).Tensors(0, tensors).Exit(1);
  }
  std::string View(const std::vector<std::string>& arguments) {
    const auto done = Run("tdump-view", arguments);
    EXPECT_EQ(done.status, 0) << done.err;
    return done.out;
  }
};

TEST_F(ViewTextsTest, NamesOfTheBackwardAreAddresses) {
  TensorImage gradient = Floats("head", {1, 2});
  gradient.role = Role::kGradOutput;
  gradient.phase = Phase::kBackward;
  MakeRun({Floats("head", {3, 4}), gradient});
  EXPECT_THAT(View({"run", "--records"}), HasSubstr(" head~b "));
  const std::string text = View({"run:0/0/head~b"});
  EXPECT_THAT(text, HasSubstr("grad_output"));
  EXPECT_THAT(text, HasSubstr("= 1  2\n"));
  EXPECT_THAT(text, Not(HasSubstr("= 3  4\n")));
  EXPECT_THAT(View({"run:0/0/head@grad_output"}), HasSubstr("= 1  2\n"));
  EXPECT_THAT(View({"run:0/0/head"}), HasSubstr("= 3  4\n"));
}

// Two names of 4,000 characters that differ in the middle, beside a short one.
TEST_F(ViewTextsTest, LongNamesDoNotWidenTheTable) {
  const auto name = [](char middle) {
    return std::string(2000, 'a') + middle + std::string(1999, 'b');
  };
  MakeRun({Floats(name('x'), {1}), Floats(name('y'), {2}), Floats("short", {3})});
  const std::string text = View({"run", "--names"});
  size_t widest = 0;
  std::string line;
  for (std::istringstream lines(text); std::getline(lines, line);)
    widest = std::max(widest, CharactersIn(line));
  EXPECT_LT(widest, 200u) << text;
  EXPECT_THAT(text, AllOf(ContainsRegex("\na+….*x.*…b+ "), ContainsRegex("\na+….*y.*…b+ "),
                          HasSubstr("\nshort ")));
  EXPECT_THAT(text, HasSubstr("\n2 names cut to 120 characters (…): --json has names whole\n"));
  const std::string json = View({"run", "--names", "--json"});
  EXPECT_THAT(json, AllOf(HasSubstr(name('x')), HasSubstr(name('y'))));
  EXPECT_THAT(View({"run", "--names", "short"}), Not(HasSubstr("cut to")));
}

TEST_F(ViewTextsTest, TheRoleThatTellsWhereNanComesFromIsThatOfThePhase) {
  TensorImage gradient = Floats("head", {1, std::numeric_limits<float>::quiet_NaN()});
  gradient.role = Role::kGradInput;
  gradient.phase = Phase::kBackward;
  MakeRun({gradient});
  EXPECT_THAT(View({"run", "--nan"}),
              HasSubstr("what it was given was not kept: capture role grad_output to see\n"));
}

TEST_F(ViewTextsTest, OfSharedBytesTheOwnerIsNamedAndTheNumbersAreShown) {
  MakeRun({Floats("first", {5, 6}, kLevelFull | kPartStats),
           Floats("second", {5, 6}, kLevelFull | kPartStats), Floats("third", {5, 6})});
  for (const char* name : {"second", "third"}) {
    const std::string text = View({std::string("run:0/0/") + name});
    EXPECT_THAT(text, HasSubstr("same bytes as first@output#"));
    EXPECT_THAT(text, HasSubstr("= 5  6\n"));
  }
}

TEST_F(ViewTextsTest, BinsOfStatisticsAreShownWhereNoValuesWereKept) {
  MakeRun({Floats("x", {0.25f, 0.5f, 1, 2, 4, 0, 1e9f}, kPartMeta | kPartStats)});
  const std::string text = View({"run:0/0/x", "--exponents"});
  EXPECT_THAT(text, HasSubstr("7 elements: 1 zero, 0 NaN, 0 Inf; bins of eight exponents, from "
                              "statistics\n"));
  EXPECT_THAT(text, ContainsRegex("2\\^-7\\.\\.0 +3  #+\n"));
  EXPECT_THAT(text, ContainsRegex("2\\^1\\.\\.8 +2  #+\n"));
  EXPECT_THAT(text, ContainsRegex("2\\^25\\.\\.32 +1  #+\n"));
  const auto bins = nlohmann::json::parse(View({"run:0/0/x", "--exponents", "--json"}));
  EXPECT_EQ(bins["records"][0]["exponents"]["bins"]["-7..0"], 3);
}

// 1e-200 is 2^-665 and 1e200 is 2^664: beyond what the bins name.
TEST_F(ViewTextsTest, TheOutermostBinsHaveNoEnd) {
  const std::vector<double> values = {1e-200, -1e200, 0x1p-120, 0x1p-119, 0x1p120, 0x1p121};
  MakeRun({{.path = "x",
            .bytes = BytesOf(values),
            .dtype = "float64",
            .bits = 64,
            .sizes = {6},
            .level = kPartMeta | kPartStats}});
  const std::string text = View({"run:0/0/x", "--exponents"});
  EXPECT_THAT(text, ContainsRegex("2\\^\\.\\.-120 +2  #+\n"));
  EXPECT_THAT(text, ContainsRegex("2\\^-119\\.\\.-112 +1  #+\n"));
  EXPECT_THAT(text, ContainsRegex("2\\^113\\.\\.120 +1  #+\n"));
  EXPECT_THAT(text, ContainsRegex("2\\^121\\.\\. +2  #+\n"));
  const auto bins = nlohmann::json::parse(View({"run:0/0/x", "--exponents", "--json"}));
  EXPECT_EQ(bins["records"][0]["exponents"]["bins"]["..-120"], 2);
}

TEST_F(ViewTextsTest, ThePythonLineIsOfTheOutputRatherThanOfAWeight) {
  TensorImage weight = Floats("x", {1, 2}, kPartMeta | kPartHash);
  weight.role = Role::kParam;
  weight.arg = "weight";
  MakeRun({weight, Floats("x", {3, 4}, kPartMeta | kPartStats)});
  EXPECT_THAT(View({"run:0/0/x"}), HasSubstr(".record(\"x@output#\").stats\n"));
  EXPECT_THAT(View({"run:0/0/x@param"}), HasSubstr(".record(\"x@param#weight\")\n"));
}

TEST_F(ViewTextsTest, WithoutBothTheLevelIsNamed) {
  MakeRun({Floats("x", {1, 2}, kPartMeta | kPartHash)});
  EXPECT_THAT(View({"run:0/0/x", "--exponents"}), HasSubstr("capture with level stats or full\n"));
  EXPECT_THAT(View({"run:0/0/x"}), Not(HasSubstr("exponents")));
}

TEST_F(ViewTextsTest, TheSignatureNamesTheRootOfAnInput) {
  TensorImage input = Floats(".", {1, 2}, kPartMeta | kPartHash);
  input.role = Role::kInput;
  input.arg = "1";
  input.root = "CrossEntropyLoss";
  MakeRun({input});
  EXPECT_THAT(View({"run"}), HasSubstr("input 1 of CrossEntropyLoss [2] float32, hashed each"));
  EXPECT_EQ(nlohmann::json::parse(View({"run", "--json"}))["signature"]["inputs"][0]["root"],
            "CrossEntropyLoss");
}

TEST_F(ViewTextsTest, PatternsThatMatchNothingGetNamesThatComeNear) {
  ProcessImage(env_, Path("my run"), {})
      .Tensors(0, {Floats("encoder.dense", {1})})
      .Add(io::OperatorCountSection{"", "encoder.dense", "", 1, 1, 0})
      .Exit(1);
  const std::vector<std::vector<std::string>> asked = {{"--names", "encodr"},
                                                       {"--names", "--select", "encodr"},
                                                       {"--records", "--select", "encodr"},
                                                       {"--select", "encodr", "--sort", "bytes"},
                                                       {"--select", "encodr", "--txt", "-"}};
  for (std::vector<std::string> arguments : asked) {
    arguments.insert(arguments.begin(), "my run");
    const auto done = Run("tdump-view", arguments);
    EXPECT_EQ(done.status, 2) << arguments[1];
    EXPECT_EQ(done.out, "");
    EXPECT_THAT(done.err, HasSubstr(". Near: 'encoder.dense'")) << arguments[1];
  }
  EXPECT_THAT(Run("tdump-view", {"my run:0/0/encoder.dens"}).err,
              HasSubstr("Near: 'encoder.dense'. See tdump-view 'my run' --names"));
  EXPECT_THAT(View({"my run"}), HasSubstr("next       tdump-view 'my run' --names"));
}

TEST_F(ViewTextsTest, ARootHasTheClassOfItsRecords) {
  TensorImage input = Floats(".", {1}, kPartMeta | kPartHash);
  input.role = Role::kInput;
  input.cls = "job.Net";
  ProcessImage(env_, Path("run"), {})
      .Tensors(0, {input})
      .Add(io::OperatorCountSection{"", ".", "", 1, 1, 0})
      .Exit(1);
  EXPECT_THAT(View({"run", "--names"}), ContainsRegex("\\. +module +Net +- "));
}

TEST_F(ViewTextsTest, WhatTheRingOverwroteIsToldPerOperator) {
  ProcessImage(env_, Path("run"), {})
      .Pass(0, {"a", "b"})
      .Pass(1, {"a"})
      .Add(io::RemovedSection{1, 1, 100, "pass00001.tdp"})
      .Exit(2);
  ASSERT_TRUE(env_->Remove(Path("run/rank0_pid100/pass00001.tdp")).ok());
  for (const bool merged : {false, true}) {
    if (merged) ASSERT_EQ(Run("tdump-merge", {"run"}).status, 0);
    const std::string names = View({"run", "--names"});
    EXPECT_THAT(names, ContainsRegex("records +not kept +overwritten\n"));
    EXPECT_THAT(names, ContainsRegex("\na +.* 2 +2 +0 +1\n"));
    EXPECT_THAT(names, ContainsRegex("\nb +.* 1 +1 +0 +0\n"));
    EXPECT_THAT(View({"run", "--coverage"}), ContainsRegex("  a +1 +1 +0 +1\n"));
    EXPECT_THAT(View({"run"}), HasSubstr("1 record overwritten: 1 of a\n"));
    EXPECT_EQ(nlohmann::json::parse(View({"run", "--json"}))["overwritten"],
              nlohmann::json::parse(R"([{"operator": "a", "records": 1}])"));
  }
}

TEST_F(ViewTextsTest, AContainerIsNeverCalledAndNotMissed) {
  ProcessImage(env_, Path("run"), {})
      .Expect("blocks", "torch.nn.modules.container.ModuleList")
      .Expect("unused")
      .Pass(0)
      .Exit(1);
  const std::string text = View({"run"});
  EXPECT_THAT(text, HasSubstr("never called: unused"));
  EXPECT_THAT(text, Not(HasSubstr("blocks")));
  EXPECT_THAT(View({"run", "--coverage"}), Not(HasSubstr("blocks")));
  EXPECT_THAT(Run("tdump-view", {"run:0/0/blocks"}).err, HasSubstr("'blocks' is a ModuleList"));
}

TEST_F(ViewTextsTest, ARunThatIsNotThereNamesThoseBesideIt) {
  ProcessImage(env_, Path("runs/first"), {}).Pass(0).Exit(1);
  for (const char* tool : {"tdump-view", "tdump-merge"}) {
    EXPECT_THAT(Run(tool, {"runs/frist"}).err, HasSubstr("; runs here: runs/first")) << tool;
    EXPECT_THAT(Run(tool, {"runs"}).err, HasSubstr("; runs here: runs/first")) << tool;
    EXPECT_THAT(Run(tool, {"ruins/first"}).err, HasSubstr("; no runs in ruins/ or outputs/ here"))
        << tool;
  }
}

TEST_F(ViewTextsTest, ARunWithADirectoryOfItsOwnIsNamedByIt) {
  MakeRun({Floats("x", {1})});
  const auto done = Run("tdump-view", {});
  EXPECT_EQ(done.status, 2);
  EXPECT_THAT(done.err, HasSubstr("no run was named, and there is no newest one in outputs/"));
  EXPECT_THAT(done.err, HasSubstr("with -o DIR"));
  EXPECT_THAT(done.err, HasSubstr("tdump-view DIR"));
}

TEST_F(ViewTextsTest, ValuesThatWereNotKeptAreSaidToBe) {
  MakeRun({Floats("x", {1, 2}, kPartMeta | kPartHash), Floats("y", {1, 2}, kPartMeta),
           Floats("z", {1, 2}, kPartMeta | kPartStats), Floats("full", {1, 2})});
  EXPECT_THAT(View({"run:0/0/x", "--values", "4"}),
              HasSubstr(" its values were not kept, only meta and hash\n"));
  EXPECT_THAT(View({"run:0/0/y"}), HasSubstr(" its values were not kept, only meta\n"));
  EXPECT_THAT(View({"run:0/0/x", "--values", "0"}), Not(HasSubstr("not kept")));
  for (const char* shown : {"run:0/0/z", "run:0/0/full"})
    EXPECT_THAT(View({shown}), Not(HasSubstr("not kept"))) << shown;
}

TEST_F(ViewTextsTest, AnAddressThatIsNoneGetsWhatThereIs) {
  TensorImage input = Floats("fc", {1});
  input.role = Role::kInput;
  input.arg = "0";
  for (const int32_t rank : {0, 1})
    ProcessImage(env_, Path("run"), {.rank = rank, .world = 2})
        .Tensors(0, {input, Floats("fc", {2}), Floats("fc.out", {2})})
        .Tensors(1, {Floats("fc", {2})})
        .Exit(2);
  const auto err = [&](std::vector<std::string> arguments) {
    const auto done = Run("tdump-view", std::move(arguments));
    EXPECT_EQ(done.status, 2);
    return done.err;
  };
  EXPECT_THAT(err({"run:9/1/fc"}),
              HasSubstr("no pass of these steps and ranks; there are steps 0-1 on ranks 0-1; see "
                        "tdump-view run --coverage"));
  EXPECT_THAT(err({"run:0/7/fc"}),
              HasSubstr("ranks; the job has ranks 0-1; there are steps 0-1 on ranks 0-1"));
  EXPECT_THAT(err({"run:9", "--records"}), HasSubstr("there are steps 0-1 on ranks 0-1"));
  EXPECT_THAT(err({"run:0/0/fc@outptu"}),
              HasSubstr("no record 'fc@outptu' there; 'fc' has @input#0, @output#. See"));
  EXPECT_THAT(err({"run:1/0/fc@input#0"}),
              HasSubstr("'fc@input#0' was not recorded on rank 0 in step 1, but in step 0. See"));
}

TEST_F(ViewTextsTest, OfARankThatWasNotRecordedIsSaidWhy) {
  for (const int32_t rank : {0, 1, 2}) {
    ProcessImage process(env_, Path("run"), {.rank = rank, .world = 4, .selected = rank != 2});
    if (rank == 0) process.Tensors(0, {Floats("fc", {2})});
    process.Exit(1);
  }
  const std::string there = "; there is step 0 on rank 0; see";
  for (const auto& [asked, why] : std::vector<std::pair<std::string, std::string>>{
           {"1", "; rank 1 wrote none"},
           {"2", "; rank 2 was not selected (ranks)"},
           {"2-3", "; rank 2 was not selected (ranks); rank 3 wrote none"},
           {"7", "; the job has ranks 0-3"}}) {
    for (const char* face : {"--records", "--nan"}) {
      const auto done = Run("tdump-view", {"run", face, "--rank", asked});
      EXPECT_EQ(done.status, 2);
      EXPECT_THAT(done.err, HasSubstr("no pass of these steps and ranks" + why + there)) << asked;
    }
  }
  // That rank has some, of another step.
  EXPECT_THAT(Run("tdump-view", {"run", "--records", "--rank", "0", "--step", "5"}).err,
              HasSubstr("no pass of these steps and ranks" + there));
}

TEST_F(ViewTextsTest, WhereNothingTellsOfNanThatIsSaid) {
  MakeRun({Floats("x", {1, 2}, kPartMeta | kPartHash), Floats("y", {1}, kPartMeta)});
  const auto done = Run("tdump-view", {"run", "--nan"});
  EXPECT_EQ(done.status, 2);  // no NaN is status 0
  EXPECT_EQ(done.out, "");
  EXPECT_EQ(done.err,
            "tdump-view: not known: of 2 records neither values nor statistics were kept; to see "
            "NaN capture with level: stats (or full)\n");
  EXPECT_THAT(Run("tdump-view", {"run", "--nan", "--select", "x"}).err,
              HasSubstr("not known: of 1 record "));
  const auto json = Run("tdump-view", {"run", "--nan", "--json"});
  EXPECT_EQ(json.status, 2);
  EXPECT_THAT(json.out, AllOf(HasSubstr(R"("records": 2)"), HasSubstr(R"("not_kept": 2)")));
}

TEST_F(ViewTextsTest, WhereSomethingTellsOfNanTheRestIsCounted) {
  MakeRun({Floats("x", {1, 2}, kPartMeta | kPartStats), Floats("y", {1}, kPartMeta)});
  EXPECT_THAT(View({"run", "--nan"}), HasSubstr("no NaN in 1 record; of 1 neither values"));
}

TEST_F(ViewTextsTest, AMistypedOptionIsNamed) {
  MakeRun({Floats("x", {1})});
  const auto err = [&](const std::string& tool, std::vector<std::string> arguments) {
    const auto done = Run(tool, arguments);
    EXPECT_EQ(done.status, 2);
    return done.err;
  };
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"run", "--vales", "3"}, {"run", "--vales=3"}})
    EXPECT_EQ(err("tdump-view", words),
              "tdump-view: no option --vales; did you mean --values? See tdump-view --help\n");
  EXPECT_EQ(err("tdump-view", {"run", "--zzzzzz"}),
            "tdump-view: no option --zzzzzz; see tdump-view --help\n");
  // The value of an option is none.
  EXPECT_THAT(err("tdump-view", {"run", "--select", "--htlm", "--topp", "3"}),
              HasSubstr("no option --topp; did you mean --top?"));
  // Both spellings are options of both.
  for (const char* tool : {"tdump-view", "tdump-diff"}) {
    for (const char* option : {"--step", "--steps", "--rank", "--ranks"})
      EXPECT_EQ(
          Run(tool, {"run", tool == std::string("tdump-diff") ? "run" : "--records", option, "0"})
              .status,
          0)
          << tool << " " << option;
  }
  EXPECT_EQ(err("tdump-view", {"run", "--names", "x", "--top", "3", "more"}),
            "tdump-view: 'more' is one name too many; see tdump-view --help\n");
  EXPECT_THAT(err("tdump-diff", {"run", "--html", "x", "run", "more"}),
              HasSubstr("'more' is one name too many;"));
  EXPECT_THAT(err("tdump-view", {"run", "--values", "9"}),
              HasSubstr("--values: of which records? tdump-view RUN:STEP/RANK/NAME"));
  for (const char* other : {"--rtol", "--atol", "--tolerance", "--tol=1"})
    EXPECT_THAT(err("tdump-diff", {"run", "run", other}),
                AllOf(HasSubstr("--compute PRECISION"), HasSubstr("--bounds FILE")));
  EXPECT_THAT(err("tdump-merge", {"run", "--qiuet"}),
              HasSubstr("no option --qiuet; did you mean --quiet?"));
}

}  // namespace
}  // namespace tdump::tools
