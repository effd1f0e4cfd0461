// tdump-view as a process, on a run of two ranks made with the writers.
#include <gmock/gmock.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "coordinator/merge.h"
#include "io/frame_builder.h"
#include "io/merged_manifest.h"
#include "tests/coordinator/run_image.h"
#include "tests/tools/scratch.h"

namespace tdump::tools {
namespace {

using coordinator::test::BytesOf;
using coordinator::test::ProcessImage;
using coordinator::test::TensorImage;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class ViewProcessTest : public test::ScratchTest {
 protected:
  ViewProcessTest() {
    for (int rank : {0, 1}) {
      ProcessImage process(env_, Path("run"), {.rank = rank, .world = 2});
      process.Expect("mlp").Expect("drop").Expect("norm");
      const TensorImage input{.path = "mlp",
                              .bytes = BytesOf<float>({1.25f, -4.5f}),
                              .dtype = "float32",
                              .bits = 32,
                              .sizes = {1, 2},
                              .role = Role::kInput,
                              .arg = "0",
                              .late = true};
      const TensorImage output{.path = "mlp",
                               .bytes = BytesOf<float>({rank == 1 ? kNan : 1.0f, 0.1f}),
                               .dtype = "float32",
                               .bits = 32,
                               .sizes = {1, 2}};
      const TensorImage norm{.path = "norm",
                             .bytes = BytesOf<uint64_t>({~0ull}),
                             .dtype = "uint64",
                             .bits = 64,
                             .sizes = {}};
      process.Tensors(0, {input, output, norm}).Tensors(1, {output});
      process.Map(0, 0, 1).Map(1, 1, 1).Add(io::AgreementSection{"file", 1, {}});
      process.Exit(2);
    }
  }
  test::Finished View(std::vector<std::string> arguments) { return Run("tdump-view", arguments); }
  nlohmann::json Json(std::vector<std::string> arguments) {
    arguments.push_back("--json");
    const auto done = View(arguments);
    EXPECT_EQ(done.status, 0) << done.err;
    return nlohmann::json::parse(done.out);
  }
};

TEST_F(ViewProcessTest, TheRunAtAGlance) {
  const auto done = View({"run"});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.out, StartsWith("tdump: COMPLETE  run  "));
  EXPECT_THAT(done.out, HasSubstr("0-1 agreed on all 2 ranks (transport file, lag 1 step)"));
  EXPECT_THAT(View({"run", "--coverage"}).out,
              HasSubstr("\n  blocked: waited for room in the arena; copies, and the time that the "
                        "writer takes from the job, are not in it\n"));
  EXPECT_THAT(done.out, HasSubstr("3 selected, 2 seen, 2 complete on every rank; never called: "
                                  "drop\n"));
  EXPECT_EQ(Json({"run"})["operators"]["never_called"], nlohmann::json({"drop"}));
}

TEST_F(ViewProcessTest, NamesAreOperators) {
  EXPECT_THAT(View({"run", "--names"}).out, HasSubstr("drop"));
  const auto some = Json({"run", "--names", "^m"});
  ASSERT_EQ(some["operators"].size(), 1u);
  EXPECT_EQ(some["operators"][0]["name"], "mlp");
  EXPECT_EQ(some["operators"][0]["records"], 6);
  EXPECT_EQ(View({"run", "--names", "zzz"}).status, 2);
  EXPECT_THAT(View({"run", "--names", "("}).err, HasSubstr("("));
}

TEST_F(ViewProcessTest, RecordsByStepRankAndRole) {
  EXPECT_EQ(Json({"run", "--records"})["records"].size(), 8u);
  EXPECT_EQ(Json({"run", "--records", "--step", "1"})["records"].size(), 2u);
  EXPECT_EQ(Json({"run:0/1", "--records"})["records"].size(), 3u);
  EXPECT_EQ(Json({"run/rank1", "--records"})["records"].size(), 4u);
  EXPECT_EQ(Json({"run", "--records", "--rank", "-1"})["records"].size(), 4u);
  const auto inputs = Json({"run", "--records", "--role", "input", "--arg", "^0$"})["records"];
  ASSERT_EQ(inputs.size(), 2u);
  EXPECT_EQ(inputs[0]["key"], "mlp@input#0");
  EXPECT_TRUE(inputs[0]["late"].get<bool>());
  EXPECT_EQ(Json({"run", "--records", "--select", "norm"})["records"].size(), 2u);
  EXPECT_THAT(View({"run", "--records", "--role", "inptu"}).err, HasSubstr("'inptu' is no role"));
  EXPECT_THAT(View({"run", "--records", "--step", "7"}).err, HasSubstr("no pass of these steps"));
  EXPECT_THAT(View({"run", "--records", "--top", "3"}).out, HasSubstr("5 more: --all"));
}

TEST_F(ViewProcessTest, SortsByWhatIsInTheValues) {
  const auto nan = Json({"run", "--records", "--sort", "nan", "--top", "2"});
  EXPECT_EQ(nan["records"][0]["rank"], 1);
  EXPECT_EQ(nan["records"][0]["nan"], 1);
  EXPECT_EQ(nan["records"][1]["nan"], 1);
  EXPECT_EQ(nan["left_out"], 6);
  const auto large = Json({"run", "--sort", "absmax", "--top", "3"});
  EXPECT_EQ(large["records"][0]["absmax"], "18446744073709551615");
  EXPECT_EQ(large["records"][2]["absmax"], "4.5");
}

TEST_F(ViewProcessTest, ThePythonLineAsksForWhatWasKept) {
  const std::string file = TDUMP_GOLDEN_DIR "/parts.tdp";  // its first record has statistics only
  EXPECT_THAT(View({file + ":41/2/norm"}).out,
              HasSubstr("parts.tdp\")[41, 2].record(\"norm@output#\").stats\n"));
}

TEST_F(ViewProcessTest, OneTensorByItsAddress) {
  const auto done = View({"run:0/1/mlp@input#0"});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.out, StartsWith("step 0, rank 1   mlp   Linear\n"));
  EXPECT_THAT(done.out,
              HasSubstr("[1, 2] float32  kept meta+hash+payload  8 B  (read after the call)"));
  EXPECT_THAT(done.out, HasSubstr("[0, 0:2] = 1.25  -4.5\n"));
  EXPECT_THAT(View({"run:0/1/mlp"}).out, HasSubstr("python: tdump.open(\"run\")[0, 1][\"mlp\"]\n"));
  const auto json = Json({"run:0/1/mlp@output", "--values", "1"});
  EXPECT_EQ(json["records"][0]["values"], nlohmann::json({"nan"}));
  EXPECT_EQ(Json({"run:0/0/norm"})["records"][0]["values"],
            nlohmann::json({"18446744073709551615"}));
  EXPECT_THAT(View({"run:0/0/mpl"}).err, HasSubstr("no record 'mpl' there. Near: 'mlp'"));
  EXPECT_THAT(View({"run:0/0/drop"}).err, HasSubstr("selected but never called"));
  EXPECT_EQ(View({"run:9/0/mlp"}).status, 2);
}

TEST_F(ViewProcessTest, AnElementAndThoseBesideIt) {
  ProcessImage(env_, Path("grid"), {})
      .Tensors(0, {{.path = "fc",
                    .bytes = BytesOf<int16_t>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}),
                    .dtype = "int16",
                    .bits = 16,
                    .sizes = {2, 5}},
                   {.path = "fc", .bytes = "\1", .sizes = {}, .role = Role::kParam, .arg = "bias"}})
      .Exit(1);
  const auto at = [&](const std::string& place) {
    return View({"grid:0/0/fc", "--values", "3", "--at", place});
  };
  EXPECT_THAT(at("1,2").out, HasSubstr("[1, 2] = 8\n               [1, 1:4] = 7  8  9\n"));
  EXPECT_THAT(at("0,0").out, HasSubstr("[0, 0] = 1\n               [0, 0:3] = 1  2  3\n"));
  EXPECT_THAT(at("1,4").out, HasSubstr("[1, 4] = 10\n               [1, 2:5] = 8  9  10\n"));
  const auto json = Json({"grid:0/0/fc", "--values", "3", "--at", "1,2"});
  EXPECT_EQ(json["records"][0]["at"], "[1, 2] = 8");
  EXPECT_EQ(json["records"][0]["values_of"], "[1, 1:4]");
  EXPECT_EQ(at("2,0").status, 2);
  EXPECT_THAT(at("2,0").err, HasSubstr("--at 2,0: its shape is [2, 5]"));
  EXPECT_THAT(at("1").err, HasSubstr("--at 1: its shape is [2, 5]"));
  EXPECT_THAT(at("1,x").err, HasSubstr("expected an index for each dimension"));
  EXPECT_THAT(View({"grid", "--at", "1,2"}).err, HasSubstr("of which record?"));
}

// Rank 1's "mlp" makes it of finite inputs; in step 1 nothing is new.
TEST_F(ViewProcessTest, TheFirstNanInTime) {
  const auto done = View({"run", "--nan"});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.out, StartsWith("first NaN   step 0, rank 1, mlp, output\n"
                                   "            [1, 2] float32, 1 NaN, 0 infinite, absmax 0.1"));
  EXPECT_THAT(done.out, HasSubstr("look closer: tdump-view 'run:0/1/mlp@output#' --values 8\n"));
  EXPECT_THAT(View({"run", "--nan", "--step", "1"}).out,
              StartsWith("first NaN   step 1, rank 1, mlp, output\n"));
  EXPECT_THAT(View({"run", "--nan", "--rank", "0"}).out, StartsWith("no NaN in 4 records\n"));
  const auto json = Json({"run", "--nan"});
  EXPECT_EQ(json["first"].size(), 1u);
  EXPECT_EQ(json["first"][0]["record"]["nan"], 1);
  EXPECT_EQ(View({"run", "--nan", "--select", "nothing"}).status, 2);
}

TEST_F(ViewProcessTest, NoValuesAreOfferedOfWhatHasStatisticsOnly) {
  const auto done = View({TDUMP_GOLDEN_DIR "/parts.tdp", "--nan"});
  EXPECT_THAT(done.out, HasSubstr("/parts.tdp:41/2/norm@output#'\n"));
  EXPECT_THAT(done.out, Not(HasSubstr("--values")));
}

// Of two ranks that have it in one step the one that was given none made it, whatever their
// numbers.
TEST_F(ViewProcessTest, NanIsOfTheRankThatMadeIt) {
  for (const int rank : {0, 1}) {
    const auto tensor = [](const std::string& path, Role role, float x) {
      return TensorImage{.path = path,
                         .bytes = BytesOf<float>({x, 0.5f}),
                         .dtype = "float32",
                         .bits = 32,
                         .sizes = {2},
                         .role = role,
                         .arg = role == Role::kInput ? "0" : ""};
    };
    ProcessImage(env_, Path("two"), {.rank = rank, .world = 2})
        .Tensors(0, {tensor("up", Role::kInput, rank == 0 ? kNan : 1),
                     tensor("up", Role::kOutput, kNan)})
        .Exit(1);
  }
  const auto done = View({"two", "--nan"});
  EXPECT_THAT(done.out, HasSubstr("rank 1, up, output")) << done.out;
  EXPECT_THAT(done.out, HasSubstr("also        step 0, rank 0, up, input 0"));
}

// What an optimizer keeps is not made of what its module was given.
TEST_F(ViewProcessTest, NanThatCameThroughGradientsIsNotMadeThere) {
  const auto tensor = [](Role role, const std::string& arg, float x) {
    return TensorImage{.path = "up",
                       .bytes = BytesOf<float>({x}),
                       .dtype = "float32",
                       .bits = 32,
                       .sizes = {1},
                       .role = role,
                       .arg = arg};
  };
  for (const int rank : {0, 1}) {
    ProcessImage(env_, Path("two"), {.rank = rank, .world = 2})
        .Tensors(0, {tensor(Role::kInput, "0", rank == 0 ? 1 : kNan), tensor(Role::kOutput, "", 1),
                     tensor(Role::kState, "weight.exp_avg", kNan)})
        .Exit(1);
  }
  const auto done = View({"two", "--nan"});
  EXPECT_THAT(done.out, StartsWith("first NaN   step 0, rank 1, up, input 0\n"));
  EXPECT_THAT(done.out, HasSubstr("also        step 0, rank 0, up, state weight.exp_avg\n"));
  EXPECT_THAT(done.out, Not(HasSubstr("given")));
}

TEST_F(ViewProcessTest, CountsEveryExponent) {
  const auto done = View({"run:0/0/mlp", "--exponents"});
  EXPECT_EQ(done.status, 0) << done.err;
  // Of 1.25 and -4.5, and of 1 and 0.1.
  EXPECT_THAT(done.out, HasSubstr("2 elements: 0 zero, 0 NaN, 0 Inf\n               2^0"));
  const auto records = Json({"run:0/1/mlp", "--exponents"})["records"];
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0]["exponents"]["counts"], nlohmann::json({{"0", 1}, {"2", 1}}));
  EXPECT_EQ(records[1]["exponents"]["nan"], 1);
  EXPECT_EQ(records[1]["exponents"]["counts"], nlohmann::json({{"-4", 1}}));
  EXPECT_EQ(Json({"run:0/0/norm", "--exponents"})["records"][0]["exponents"]["counts"],
            nlohmann::json({{"64", 1}}));  // 2^64 - 1, as a double
  EXPECT_EQ(View({"run", "--exponents"}).status, 2);
}

TEST_F(ViewProcessTest, ExportsText) {
  EXPECT_THAT(View({"run:0/0/mlp@input#0", "--txt", "x.txt"}).out, HasSubstr("1 record in x.txt"));
  EXPECT_THAT(Text(Path("x.txt")), HasSubstr("\n1.25 -4.5\n"));
  EXPECT_THAT(View({"run:0/0/mlp@input#0", "--txt", "-"}).out, HasSubstr("\n1.25 -4.5\n"));
  EXPECT_THAT(View({"run", "--rank", "1", "--txt", "all/"}).out, HasSubstr("4 records in all/"));
  EXPECT_EQ(View({"run:0/0/nothing", "--txt", "y.txt"}).status, 2);
  EXPECT_FALSE(std::filesystem::exists(Path("y.txt")));
}

TEST_F(ViewProcessTest, AnExportIsOneDocumentWhereThatIsAskedFor) {
  const auto said = Json({"run", "--rank", "1", "--txt", "all/"});
  EXPECT_EQ(said, nlohmann::json({{"format", "txt"},
                                  {"output", "all/"},
                                  {"written", "4 records in all/"},
                                  {"left_out", ""},
                                  {"damage", nlohmann::json::array()},
                                  {"status", 0}}));
  EXPECT_TRUE(std::filesystem::exists(Path("all/names.tsv")));
}

// Else one of them would have no effect.
TEST_F(ViewProcessTest, OptionsThatExcludeEachOtherAreBothNamed) {
  for (const char* face : {"--coverage", "--names", "--nan", "--verify", "--exponents"}) {
    const auto refused = View({"run:0/0/mlp", face, "--txt", "x.txt"});
    EXPECT_EQ(refused.status, 2);
    EXPECT_EQ(refused.err, std::string("tdump-view: --txt and ") + face + ": one at a time\n");
  }
  const auto both = View({"run", "--txt", "-", "--json"});
  EXPECT_EQ(both.status, 2);
  EXPECT_EQ(both.out, "");
  EXPECT_THAT(both.err, StartsWith("tdump-view: --txt - and --json: "));
}

// Told with path and errno name; nothing half written stays.
TEST_F(ViewProcessTest, AnExportThatDoesNotFitLeavesNothing) {
  ProcessImage process(env_, Path("large"), {});
  process.Tensors(0, {{.bytes = std::string(1 << 16, '\7'), .sizes = {1 << 16}}}).Exit(1);
  const std::string command =
      "trap '' XFSZ && ulimit -f 8 && " + PathOf("tdump-view") + " large:0/0/a --txt x.txt 2>err";
  EXPECT_EQ(WEXITSTATUS(Shell(command)), 2);
  EXPECT_THAT(Text(Path("err")), HasSubstr("x.txt"));
  EXPECT_THAT(Text(Path("err")), HasSubstr("EFBIG"));
  const auto names = env_->List(path_);
  for (const std::string& name : *names) EXPECT_THAT(name, Not(StartsWith("x.txt")));
}

TEST_F(ViewProcessTest, CoverageAtLength) {
  const auto all = View({"run", "--coverage"});
  EXPECT_THAT(all.out, HasSubstr("\n  drop                 0   2         0\n"));
  const auto one = View({"run", "--coverage", "--rank", "1"});
  EXPECT_THAT(one.out, HasSubstr("rank 1  rank1_pid101  started as pid 101 by PMIx"));
  EXPECT_THAT(one.out, HasSubstr("rank1_pid101/pass00001.tdp"));
  EXPECT_THAT(one.out, Not(HasSubstr("rank0_pid100")));
  EXPECT_EQ(Json({"run", "--coverage", "--rank", "1"})["ranks"].size(), 1u);
  // What it takes the passes of all ranks to know.
  EXPECT_THAT(all.out, HasSubstr("\n  seen       3 operators: 2 eager, 1 never\n"));
  EXPECT_THAT(one.out, Not(HasSubstr("\n  seen  ")));
  const auto ways = Json({"run", "--coverage"})["ways"];
  EXPECT_EQ(ways["counts"], nlohmann::json({{"eager", 2}, {"never", 1}}));
  EXPECT_EQ(ways["operators"].size(), 3u);
  EXPECT_FALSE(Json({"run", "--coverage", "--rank", "1"}).contains("ways"));
  EXPECT_EQ(View({"run", "--coverage", "--rank", "9"}).status, 2);
  EXPECT_EQ(View({"run/rank1"}).out, Run("tdump-view", {"run/rank1", "--coverage"}).out);
}

TEST_F(ViewProcessTest, OfAPassFileAloneWhatItDoesNotKnowIsLeftOut) {
  const auto alone = View({"run/rank1_pid101/pass00000.tdp", "--coverage"});
  EXPECT_THAT(alone.out, HasSubstr("rank 1 without its manifest"));
  EXPECT_THAT(alone.out, HasSubstr("\nrank 1  started as pid 101\n  step "));
  for (const char* unknown : {"operators", "program", "versions", " by ", "step ="})
    EXPECT_THAT(alone.out, Not(HasSubstr(unknown)));
  // Its records are counted: they are what its own rank has of that step.
  EXPECT_THAT(alone.out, ::testing::ContainsRegex("\n +0 +0 +- +forward +[1-9]"));
}

TEST_F(ViewProcessTest, VerifyFindsOneFlippedBit) {
  EXPECT_EQ(View({"run", "--verify"}).status, 0);
  const std::string path = Path("run/rank1_pid101/pass00000.tdp");
  std::string bytes = Text(path);
  const std::string payload = BytesOf<float>({1.25f, -4.5f});
  const size_t at = bytes.find(payload);
  ASSERT_NE(at, std::string::npos);
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  ASSERT_TRUE(WriteFileAtomically(env_, path, bytes, 0600).ok());
  const auto damaged = View({"run", "--verify"});
  EXPECT_EQ(damaged.status, 1);
  EXPECT_THAT(damaged.out, StartsWith("DAMAGED  4 passes"));
  EXPECT_THAT(damaged.out, HasSubstr("rank1_pid101/pass00000.tdp, byte "));
  EXPECT_EQ(View({"run", "--verify", "--rank", "0"}).status, 0);
  // Elsewhere damage is trouble, never a number.
  const auto read = View({"run:0/1/mlp@input#0"});
  EXPECT_EQ(read.status, 2);
  EXPECT_THAT(read.err, HasSubstr("pass00000.tdp"));
}

TEST_F(ViewProcessTest, AKilledPassIsReadableAndNotDamage) {
  ProcessImage killed(env_, Path("killed"), {.rank = 0, .world = 1});
  killed.Pass(0).TornPass(1, {"first", "second"}, 120);
  const auto verified = View({"killed", "--verify"});
  EXPECT_EQ(verified.status, 0) << verified.out;
  EXPECT_THAT(verified.out, HasSubstr("SOUND  2 passes"));
  EXPECT_THAT(verified.out, HasSubstr("; 1 is unfinished (killed, or still running), what they had "
                                      "written until then is sound\n"));
  EXPECT_THAT(verified.out, HasSubstr("unfinished  step 1, rank 0: "));
  EXPECT_THAT(verified.out, HasSubstr("killed/rank0_pid100/pass00001.tdp.part ends at byte "));
  EXPECT_THAT(verified.out, EndsWith("; 2 sound records before it\n"));
  const auto unfinished = Json({"killed", "--verify"})["unfinished"];
  ASSERT_EQ(unfinished.size(), 1u);
  EXPECT_EQ(unfinished[0]["step"], 1);
  EXPECT_EQ(unfinished[0]["records"], 2);
  EXPECT_THAT(View({"killed:1/0/first"}).out, HasSubstr("(unfinished pass)"));
  EXPECT_THAT(View({"killed"}).out, HasSubstr("in step 1"));
}

// The manifest of a killed process does not have the records of its last pass.
TEST_F(ViewProcessTest, CoverageCountsWhatCanBeReadOfAKilledPass) {
  ProcessImage killed(env_, Path("killed"), {.rank = 0, .world = 1});
  killed.Pass(0).TornPass(1, {"first", "second"}, 120);
  const auto rank = Json({"killed", "--coverage"})["ranks"][0];
  EXPECT_EQ(rank["records"], 3);
  EXPECT_GE(rank["calls"], 2);
  EXPECT_THAT(View({"killed", "--coverage", "--rank", "0"}).out,
              ::testing::ContainsRegex("\n *1 +1 +- +forward +2 .*pass00001.tdp.part  "));
}

TEST_F(ViewProcessTest, ANumberThatIsNoneIsToldPlainly) {
  for (const char* number : {"-1", "many"}) {
    for (const char* option : {"--values", "--top"}) {
      const auto wrong = View({"run:0/1/mlp", option, number});
      EXPECT_EQ(wrong.status, 2);
      EXPECT_EQ(wrong.err, std::string("tdump-view: ") + option +
                               ": expected a whole number, 0 or more; found '" + number +
                               "'; see tdump-view --help\n");
    }
  }
}

TEST_F(ViewProcessTest, AManifestThatAKillCutIsNotDamage) {
  ProcessImage killed(env_, Path("cut"), {.rank = 0, .world = 1});
  killed.Pass(0);
  const std::string path = Path("cut/rank0_pid100/manifest.tdm");
  std::string bytes = Text(path);
  io::FrameBuilder note(io::FrameKind::kNote, &bytes);
  bytes.append(8000, 'x');
  note.Finish();
  ASSERT_TRUE(WriteFileAtomically(env_, path, bytes.substr(0, 4096), 0600).ok());
  const auto cut = View({"cut", "--verify"});
  EXPECT_EQ(cut.status, 0) << cut.out;
  EXPECT_THAT(cut.out, StartsWith("SOUND  1 pass"));
  EXPECT_THAT(cut.out, HasSubstr("the process ended while it wrote this last entry"));
  ASSERT_TRUE(WriteFileAtomically(env_, path, bytes.substr(0, 4000), 0600).ok());
  EXPECT_EQ(View({"cut", "--verify"}).status, 1);
}

TEST_F(ViewProcessTest, NothingInAFileSteersTheTerminal) {
  const std::string evil = "\033]0;owned\007\033[2J";
  ProcessImage process(env_, Path("evil"), {.rank = 0, .world = 1, .host = evil});
  TensorImage tensor;
  tensor.path = tensor.arg = tensor.dtype = evil;
  process.Expect(evil).Tensors(0, {tensor}).Add(io::NoteSection{3, 1, evil});
  process.Add(io::RuleSection{0, 1, evil, evil, 0});
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"evil"},
                                             {"evil", "--coverage"},
                                             {"evil", "--coverage", "--rank", "0"},
                                             {"evil", "--names"},
                                             {"evil", "--records"},
                                             {"evil", "--verify"},
                                             {"evil:0/0/" + evil},
                                             {"evil:0/0/nothing"},
                                             {"evil", "--json"},
                                             {"evil", "--records", "--json"},
                                             {"evil", "--txt", "-"},
                                             {evil}}) {
    const auto done = View(arguments);
    EXPECT_THAT(done.out, Not(HasSubstr("\033"))) << arguments.back();
    EXPECT_THAT(done.err, Not(HasSubstr("\033"))) << arguments.back();
  }
}

// A merged manifest that looks fresh, but whose lists do not fit the run.
TEST_F(ViewProcessTest, AForgedMergedManifestIsSurvived) {
  const auto store = io::PassStore::Open(env_, Path("run"));
  io::RunIndex index = coordinator::BuildRunIndex(**store, 0);
  index.ranks.pop_back();
  for (const size_t ranks : {1, 0}) {
    index.ranks.resize(ranks);
    ASSERT_TRUE(io::WriteMergedManifest(env_, **store, {index}).ok());
    for (const char* face : {"--coverage", "--records", "--names", "--verify", "--json"})
      EXPECT_LE(View({"run", face}).status, 2) << face;
    EXPECT_LE(View({"run"}).status, 2);
  }
}

TEST_F(ViewProcessTest, RefusesWhatIsNotInThisVersion) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"run", "--records", "--stage", "1"}}) {
    const auto done = View(arguments);
    EXPECT_EQ(done.status, 2);
    EXPECT_THAT(done.err, HasSubstr("not in this version"));
  }
}

TEST_F(ViewProcessTest, LatestIsTheDefault) {
  EXPECT_EQ(View({}).status, 2);
  EXPECT_THAT(View({}).err, HasSubstr("tdump-run --dump"));
  ASSERT_TRUE(env_->MakeDirs(Path("outputs"), 0700).ok());
  ASSERT_TRUE(env_->Rename(Path("run"), Path("outputs/tdump_1")).ok());
  ASSERT_TRUE(env_->Symlink("tdump_1", Path("outputs/latest")).ok());
  EXPECT_THAT(View({}).out, StartsWith("tdump: COMPLETE  latest = outputs/tdump_1  "));
  EXPECT_THAT(View({"latest:0/0/norm"}).out, HasSubstr("value = 18446744073709551615"));
  EXPECT_THAT(Run("tdump-diff", {"latest", "latest"}).out, StartsWith("A outputs/tdump_1@0 "));
}

TEST_F(ViewProcessTest, AReaderThatLeavesIsNoTrouble) {
  const std::string command =
      "{ " + PathOf("tdump-view") + " run --records --all; echo $? >status; } 2>err | true";
  ASSERT_EQ(Shell(command), 0);
  EXPECT_EQ(Text(Path("status")), "0\n");
  EXPECT_EQ(Text(Path("err")), "");
}

}  // namespace
}  // namespace tdump::tools
