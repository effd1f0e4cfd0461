// tdump-diff as a process, on runs made with the writers.
#include <gmock/gmock.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <regex>

#include "core/utf8.h"
#include "tests/tools/diff_process.h"

namespace tdump::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(DiffProcessTest, SameDiffersAndTrouble) {
  MakeRun("a", {{2, 2}, {2, 2}});
  MakeRun("b", {{2, 2}, {2, 4}});
  const auto same = Diff({"a", "a"});
  EXPECT_EQ(same.status, 0) << same.err;
  EXPECT_THAT(same.out, HasSubstr("\nSAME  12 of 12 bit for bit\n"));

  const auto differs = Diff({"a", "b"});
  EXPECT_EQ(differs.status, 1) << differs.err;
  EXPECT_THAT(differs.out, StartsWith("A a@0   ranks 0-1 of 2   float32   steps 0-1\n"
                                      "B b@0   ranks 0-1 of 2   float32   steps 0-1\n"));
  EXPECT_THAT(differs.out, HasSubstr("\nDIFFERS  2 of 12 outside their bound"));
  EXPECT_THAT(differs.out, HasSubstr("\nORIGIN    rank 1, step 1, second, output\n"));
  EXPECT_THAT(differs.out, HasSubstr("worst element [0]   A 2   B 4\n"));

  const auto trouble = Diff({"a", "nowhere"});
  EXPECT_EQ(trouble.status, 2);
  EXPECT_THAT(trouble.err, StartsWith("tdump-diff: 'nowhere': no such directory"));
  EXPECT_EQ(Diff({"a"}).status, 2);
  EXPECT_EQ(Diff({"a", "b", "c"}).status, 2);
}

TEST_F(DiffProcessTest, TheJsonDocument) {
  MakeRun("a", {{2, 2}, {2, 2}});
  MakeRun("b", {{2, 2}, {2, 4}});
  const Json report = Report({"a", "b"});
  EXPECT_EQ(report["verdict"], "differs");
  EXPECT_EQ(report["origin"]["rank"], 1);
  EXPECT_EQ(report["origin"]["step"], 1);
  EXPECT_EQ(report["origin"]["name"], "second");
  EXPECT_EQ(report["origin"]["difference"]["metrics"]["max_abs"], 2.0);
  EXPECT_EQ(report["origin"]["difference"]["metrics"]["max_rel"], 0.5);
  EXPECT_EQ(report["counts"]["paired"], 12);
  EXPECT_EQ(report["counts"]["equal_by_hash"], 10);
  EXPECT_EQ(report["counts"]["read"], 2);
  EXPECT_EQ(report["counts"]["differing"]["bitwise"], 2);
  EXPECT_EQ(Report({"a", "a"})["verdict"], "same");
  EXPECT_TRUE(Report({"a", "a"})["origin"].is_null());
}

// The third column of the table of what differs.
std::vector<std::string> NamesOfTable(const std::string& report) {
  std::vector<std::string> names;
  std::istringstream lines(report);
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (inside && line.empty()) break;
    // Figures behind a long name stand below it.
    if (static const std::regex row("^ +[0-9]+ +[0-9]+  ([^ ].*?)(  .*)?$"); inside) {
      std::smatch match;
      if (std::regex_match(line, match, row)) names.push_back(match[1]);
    }
    inside = inside || line.starts_with("  rank  step  operator");
  }
  return names;
}

TEST_F(DiffProcessTest, TheViewTakesEveryNameOfTheTable) {
  const auto run_of = [&](const std::string& name, float value) {
    std::vector<TensorImage> tensors;
    const auto add = [&](const std::string& path, Role role, const std::string& arg) {
      tensors.push_back(Out<float>(path, "float32", {value, 2.5f}));
      tensors.back().role = role;
      tensors.back().arg = arg;
      if (role == Role::kParamGrad) tensors.back().phase = Phase::kBackward;
    };
    add(".", Role::kParam, "pos");
    add(".", Role::kState, "scale");
    add("fc", Role::kParam, "weight");
    add("fc", Role::kParamGrad, "weight");
    add("fc", Role::kState, "weight.exp_avg");
    add("fc", Role::kInput, "0");
    add("fc", Role::kOutput, "");
    add(".", Role::kOutput, "logits");
    MakeOneStep(name, tensors);
  };
  run_of("a", 1);
  run_of("b", 2);
  const auto done = Diff({"a", "b", "--all"});
  EXPECT_EQ(done.status, 1) << done.err;
  const std::vector<std::string> names = NamesOfTable(done.out);
  EXPECT_EQ(names.size(), 8u) << done.out;
  EXPECT_THAT(names, testing::Contains("pos, param pos"));
  EXPECT_THAT(names, testing::Contains(HasSubstr("…")));  // one that is cut
  for (const std::string& name : names) {
    const auto seen = Run("tdump-view", {"b:0/0/" + name});
    EXPECT_EQ(seen.status, 0) << name << ": " << seen.err;
    EXPECT_THAT(seen.out, HasSubstr("= 2  2.5\n")) << name;
    EXPECT_EQ(Diff({"a:0/0/" + name, "b:0/0/" + name}).status, 1) << name;
  }
  // Those of parameters, as the lines on weights and origins have them.
  for (const char* name : {"pos", "scale", "fc.weight", "fc.weight.exp_avg"})
    EXPECT_EQ(Run("tdump-view", {std::string("b:0/0/") + name}).status, 0) << name;
  EXPECT_EQ(Run("tdump-view", {"b:0/0/fc, output 1"}).status, 2);
}

TEST_F(DiffProcessTest, EveryPairAsALine) {
  MakeOneStep("a", {Out<float>("x", "float32", {1}), Out<float>("only", "float32", {1})});
  MakeOneStep("b", {Out<float>("x", "float32", {1})});
  EXPECT_EQ(Diff({"a", "b", "--jsonl", "rows"}).status, 1);
  std::istringstream lines(Text(Path("rows")));
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const Json pair = Json::parse(line);
  EXPECT_EQ(pair["name"], "x");
  EXPECT_EQ(pair["evidence"], "hash");
  EXPECT_EQ(pair["verdicts"]["tolerance"], "same");
  ASSERT_TRUE(std::getline(lines, line));
  const Json alone = Json::parse(line);
  EXPECT_EQ(alone["type"], "unpaired");
  EXPECT_EQ(alone["side"], "A");
  EXPECT_EQ(alone["name"], "only");
  EXPECT_FALSE(std::getline(lines, line));
  EXPECT_EQ(Diff({"a", "b", "--jsonl", "no/such/place"}).status, 2);
}

TEST_F(DiffProcessTest, ThePageHoldsWhatTheReportSays) {
  MakeRun("a", {{2, 2}, {2, 2}});
  MakeRun("b", {{2, 2}, {2, 4}});
  EXPECT_EQ(Diff({"a", "b", "--html", "page.html", "--jsonl", "rows"}).status, 1);
  const std::string page = Text(Path("page.html"));
  const std::string mark = "id=\"data\">";
  const size_t begin = page.find(mark) + mark.size();
  const Json data = Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  EXPECT_EQ(data["verdict"], "differs");
  EXPECT_EQ(data["origin"]["title"], "rank 1, step 1, second, output");
  EXPECT_EQ(data["origin"]["grid"]["values"], Json::parse("[2.0, 0.0]"));
  EXPECT_EQ(data["observations"]["rows"].size(), 3u);
  EXPECT_EQ(data["map"]["by_rank"], Json::parse(R"(["22", "25", "25"])"));
  EXPECT_EQ(data["grids"].size(), 2u);
  EXPECT_EQ(Diff({"a", "b", "--html", "x", "--jsonl", "x"}).status, 2);
  EXPECT_EQ(Diff({"a", "b", "--html", "no/such/place"}).status, 2);
}

TEST_F(DiffProcessTest, AFullDiskIsTrouble) {
  MakeRun("a", {{2}});
  MakeRun("b", {{4}});
  for (const char* option : {"--html", "--jsonl"}) {
    const auto full = Diff({"a", "b", option, "/dev/full"});
    EXPECT_EQ(full.status, 2) << option;
    EXPECT_THAT(full.err, HasSubstr("cannot write '/dev/full': No space left on device"));
    EXPECT_EQ(full.out, "") << option;
  }
}

TEST_F(DiffProcessTest, AKilledDiffLeavesNoHalfReport) {
  const std::vector<float> values(400, 2.0f);
  MakeRun("a", {values, values});
  MakeRun("b", {std::vector<float>(400, 4.0f), values});
  EXPECT_EQ(Diff({"a", "b", "--jsonl", "rows", "--html", "page", "--quiet"}).status, 1);
  const std::string whole_rows = Text(Path("rows")), whole_page = Text(Path("page"));
  size_t killed = 0;
  for (int attempt = 0; attempt < 10; ++attempt) {
    std::filesystem::remove(Path("rows"));
    ASSERT_TRUE(WriteFileAtomically(env_, Path("page"), "of before", 0600).ok());
    const pid_t child =
        Start("tdump-diff", {"a", "b", "--jsonl", "rows", "--html", "page", "-j", "1"});
    const std::string part = Path("page.tdump-" + std::to_string(child) + ".part");
    int status = 0;
    while (!std::filesystem::exists(part) && ::waitpid(child, &status, WNOHANG) == 0) ::usleep(200);
    ::usleep(2000 * attempt);
    ::kill(child, SIGKILL);
    if (::waitpid(child, &status, 0) == child) killed += WIFSIGNALED(status);
    EXPECT_THAT(Text(Path("rows")), testing::AnyOf("", whole_rows));
    EXPECT_THAT(Text(Path("page")), testing::AnyOf("of before", whole_page));
  }
  EXPECT_GT(killed, 0u);
}

TEST_F(DiffProcessTest, GenerationsAndSingleRanks) {
  for (uint32_t generation : {0u, 1u}) {
    for (int32_t rank : {0, 1}) {
      ProcessImage process(env_, Path("run"),
                           {.rank = rank,
                            .world = 2,
                            .generation = generation,
                            .pid = 10 * generation + rank + 1,
                            .job_key = "job" + std::to_string(generation)});
      // Generation 1, rank 1 is the odd one out.
      process.Tensors(0, Model(generation == 1 && rank == 1 ? 4 : 2)).Exit(1);
    }
  }
  EXPECT_EQ(Diff({"run@0", "run@0"}).status, 0);
  const Json generations = Report({"run@0", "run@1"});
  EXPECT_EQ(generations["origin"]["rank"], 1);
  EXPECT_EQ(generations["b"]["label"], "run@1");
  EXPECT_EQ(Diff({"run", "run@1"}).status, 0);  // the newest is meant
  EXPECT_EQ(Diff({"run@0/rank0", "run@0/rank1"}).status, 0);
  const Json ranks = Report({"run@1/rank0", "run@1/rank1"});
  EXPECT_EQ(ranks["verdict"], "differs");
  EXPECT_EQ(ranks["origin"]["rank_a"], 0);
  EXPECT_EQ(ranks["origin"]["rank"], 1);
  EXPECT_THAT(Diff({"run@7", "run"}).err, HasSubstr("the run has no generation 7"));
}

// Many ranks whose passes hold the same tensors: one is compared, and stands for the others.
TEST_F(DiffProcessTest, PassesOfEqualHashesAreCountedLikeOthers) {
  std::vector<std::vector<float>> values(6, {2, 2, 2});
  MakeRun("a", values);
  MakeRun("equal", values);
  values[4] = {2, 4, 2};
  MakeRun("other", values);
  for (const char* jobs : {"1", "3"}) {
    const Json same = Report({"a", "equal", "-j", jobs});
    EXPECT_EQ(same["verdict"], "same");
    EXPECT_EQ(same["counts"]["paired"], 6 * 3 * 3);
    EXPECT_EQ(same["counts"]["equal_by_hash"], 6 * 3 * 3);
    const Json differs = Report({"a", "other", "-j", jobs});
    EXPECT_EQ(differs["counts"]["paired"], 6 * 3 * 3);
    EXPECT_EQ(differs["counts"]["failing"], 2);
    EXPECT_EQ(differs["origin"]["rank"], 4);
    EXPECT_EQ(differs["origin"]["step"], 1);
    // The same with every row asked for, where no pass stands for another.
    Json rows = Report({"a", "other", "-j", jobs, "--jsonl", Path("rows")});
    EXPECT_EQ(rows["counts"], differs["counts"]);
    EXPECT_EQ(rows["origin"], differs["origin"]);
  }
}

TEST_F(DiffProcessTest, ModelsOfDifferentSizesAreRefused) {
  const auto weight = [](const std::string& path, std::vector<float> values) {
    TensorImage tensor = Out<float>(path, "float32", values);
    tensor.role = Role::kParam;
    tensor.arg = "weight";
    return tensor;
  };
  const auto out = [](float x) { return Out<float>("first", "float32", {x, 1}); };
  MakeOneStep("a", {weight("first", {1, 2}), weight("second", {1}), out(1)});
  MakeOneStep("b", {weight("first", {1, 2, 3}), weight("second", {1, 2}), out(1)});
  const auto refused = Diff({"a", "b"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.out, HasSubstr("NOT COMPARABLE  the models are of different sizes: 2 of 2 "
                                     "parameters have another shape, e.g."));
  EXPECT_THAT(refused.out, HasSubstr("first.weight is [2] in A and [3] in B"));
  // What the user names is compared.
  EXPECT_EQ(Diff({"a", "b", "--select", "^first$"}).status, 0);
  // One of two is no other model.
  MakeOneStep("c", {weight("first", {1, 2, 3}), weight("second", {1}), out(1)});
  EXPECT_EQ(Diff({"a", "c"}).status, 1);
}

// Each switch turns the verdict where it matters, and only with it.
TEST_F(DiffProcessTest, EverySwitchTurnsTheVerdict) {
  const float near = std::nextafter(2.0f, 3.0f);
  MakeRun("a", {{2, 2}, {2, 2}});
  MakeRun("near", {{2, 2}, {2, near}});
  MakeRun("far", {{2, 2}, {2, 4}});
  MakeRun("later", {{2, 2}, {2, 2}}, 5);
  MakeRun("more", {{2, 2}, {2, 2}});
  ProcessImage(env_, Path("more"), {.rank = 0, .world = 2, .pid = 55, .started_ns = 9})
      .Tensors(0, {Out<float>("added", "float32", {1})})
      .Map(0, 0, 1)
      .Exit(1);
  const auto status = [&](std::vector<std::string> arguments) { return Diff(arguments).status; };
  EXPECT_EQ(status({"a", "near"}), 0);
  EXPECT_EQ(status({"a", "near", "--require", "tolerance"}), 0);
  EXPECT_EQ(status({"a", "near", "--require", "bitwise"}), 1);
  EXPECT_EQ(status({"a", "near", "--require", "nonsense"}), 2);
  EXPECT_EQ(status({"a", "far"}), 1);
  EXPECT_EQ(status({"a", "far", "--steps", "0"}), 0);
  EXPECT_EQ(status({"a", "far", "--steps", "1"}), 1);
  EXPECT_EQ(status({"a", "far", "--ranks", "0"}), 0);
  EXPECT_EQ(status({"a", "far", "--ranks", "1"}), 1);
  EXPECT_EQ(status({"a", "far", "--select", "first"}), 0);
  EXPECT_EQ(status({"a", "far", "--select", "first", "--select", "third"}), 1);
  EXPECT_EQ(status({"a", "far", "--allow-failed", "second|third"}), 0);
  EXPECT_EQ(status({"a", "far", "--allow-failed", "second"}), 1);
  EXPECT_EQ(status({"a", "later"}), 2);
  EXPECT_EQ(status({"a", "later", "--steps", "0-1=5-6"}), 0);
  EXPECT_EQ(status({"a", "later", "--steps", "0-1=5-9"}), 2);
  EXPECT_EQ(status({"a", "more"}), 1);
  EXPECT_EQ(status({"a", "more", "--allow-unpaired", "added"}), 0);
  EXPECT_EQ(status({"a", "more", "--allow-unpaired", "other"}), 1);
}

TEST_F(DiffProcessTest, AReaderThatWentAwayChangesNoStatus) {
  MakeRun("a", {{2}});
  MakeRun("b", {{4}});
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  const std::string program = PathOf("tdump-diff");
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    if (::chdir(path_.c_str()) == 0) ::execl(program.c_str(), "tdump-diff", "a", "b", nullptr);
    ::_exit(126);
  }
  ::close(ends[1]);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

TEST_F(DiffProcessTest, ARegexThatTakesTooLongHidesNothing) {
  const std::string name = std::string(60, 'a') + "b";
  MakeOneStep("a", {Out<float>(name, "float32", {1}), Out<float>("aaa", "float32", {1})});
  MakeOneStep("b", {Out<float>(name, "float32", {2}), Out<float>("aaa", "float32", {1})});
  const auto selected = Diff({"a", "b", "--select", "(a+)+$"});
  EXPECT_EQ(selected.status, 1) << selected.out;
  EXPECT_THAT(selected.err, HasSubstr("the regex '(a+)+$' takes too long on 'aaa"));
  EXPECT_THAT(selected.err, HasSubstr("taken as found"));
  const auto allowed = Diff({"a", "b", "--allow-failed", "(a+)+$"});
  EXPECT_EQ(allowed.status, 1);
  EXPECT_THAT(allowed.err, HasSubstr("taken as not found"));
}

TEST_F(DiffProcessTest, ListsAsManyAsAskedFor) {
  MakeRun("a", {{2, 2}, {2, 2}});
  MakeRun("b", {{4, 4}, {4, 4}});
  EXPECT_EQ(Report({"a", "b"})["failing"].size(), 5u);
  EXPECT_EQ(Report({"a", "b", "--topk", "1"})["failing"].size(), 1u);
  EXPECT_EQ(Report({"a", "b", "--all"})["failing"].size(), 8u);
  EXPECT_THAT(Diff({"a", "b", "--topk", "1"}).out, HasSubstr("  7 more like this: --all"));
  EXPECT_THAT(Diff({"a", "b", "--all"}).out, Not(HasSubstr("more like this")));
}

TEST_F(DiffProcessTest, TheTableTakesTheColumnsThereAre) {
  const std::string name = "model." + std::string(60, 'n') + ".projection";
  MakeOneStep("a", {Out<float>(name, "float32", {1})});
  MakeOneStep("b", {Out<float>(name, "float32", {2})});
  const auto row = [&](const std::string& before) {
    EXPECT_NE(Shell(before + " '" + PathOf("tdump-diff") + "' a b > out"), 0);
    const std::string text = Text(Path("out"));
    const size_t at = text.find("\n     0     0  ");
    return at == std::string::npos ? text : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
  };
  EXPECT_THAT(row("COLUMNS="), Not(HasSubstr(name)));
  EXPECT_LE(CharactersIn(row("COLUMNS=")), 100u);
  EXPECT_THAT(row("COLUMNS=160"), HasSubstr(name + ", output"));
  EXPECT_LE(CharactersIn(row("COLUMNS=80")), 80u);
  EXPECT_EQ(row("COLUMNS=many"), row("COLUMNS="));
  if (Shell("script --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no script(1)";
  (void)Shell("script -qec \"stty cols 160; env -u COLUMNS '" + PathOf("tdump-diff") +
              "' a b --no-color\" shown > /dev/null 2>&1");
  EXPECT_THAT(Text(Path("shown")), HasSubstr(name + ", output"));
}

TEST_F(DiffProcessTest, AsManyElementsAsAreAskedFor) {
  MakeOneStep("a", {Out<float>("fc", "float32", {1, 2, 3, 4})});
  MakeOneStep("b", {Out<float>("fc", "float32", {1, 9, 3.5f, 7})});
  EXPECT_THAT(Diff({"a", "b"}).out, Not(HasSubstr("then [")));
  EXPECT_THAT(Diff({"a", "b", "--values", "2"}).out,
              HasSubstr("worst element [1]   A 2   B 9\n          then [3]   A 4   B 7\n"));
  const Json report = Report({"a", "b", "--values", "9"});
  EXPECT_EQ(report["origin"]["difference"]["worst_elements"].size(), 3u);
  // What the report names shows it.
  const auto view = Run("tdump-view", {"b@0:0/0/fc@output#", "--values", "2", "--at", "1"});
  EXPECT_THAT(Diff({"a", "b"}).out,
              HasSubstr("tdump-view 'b@0:0/0/fc@output#' --values 8 --at 1\n"));
  EXPECT_THAT(view.out, HasSubstr("[1] = 9\n"));
}

TEST_F(DiffProcessTest, WhatAnAddressNamesKeepsItsNumbers) {
  MakeRun("a", {{2, 2}, {2, 2}});
  MakeRun("b", {{2, 2}, {2, 4}});
  const auto done = Diff({"a:1/1/second", "b:1/1/second", "--jsonl", "rows"});
  EXPECT_EQ(done.status, 1) << done.err;
  EXPECT_THAT(done.out, StartsWith("A a:1/1/second   rank 1 of 2   float32   step 1\n"
                                   "B b:1/1/second   rank 1 of 2   float32   step 1\n"));
  EXPECT_THAT(done.out, HasSubstr("\nORIGIN    rank 1, step 1, second, output\n"));
  EXPECT_THAT(done.out, HasSubstr("its inputs are not compared: the address leaves them out"));
  EXPECT_THAT(done.out, HasSubstr("weights   none compared: not what the address names\n"));
  EXPECT_THAT(done.out,
              HasSubstr("\nlook closer: tdump-view 'b@0:1/1/second@output#' --values 8 --at 0\n"));
  EXPECT_THAT(Run("tdump-view", {"b@0:1/1/second@output#", "--at", "0"}).out,
              HasSubstr("[0] = 4\n"));
  const Json row = Json::parse(Text(Path("rows")));
  EXPECT_EQ(row["step"], 1);
  EXPECT_EQ(row["rank"], 1);
  // Of another step and rank in A.
  const Json report = Report({"a:0/0/second", "b:1/1/second"});
  EXPECT_EQ(report["steps"], Json::parse("[[0, 1]]"));
  EXPECT_EQ(report["ranks"], Json::parse("[[0, 1]]"));
  EXPECT_EQ(report["origin"]["step"], 1);
  EXPECT_EQ(report["origin"]["rank"], 1);
  EXPECT_EQ(report["origin"]["step_a"], 0);
  EXPECT_EQ(report["origin"]["rank_a"], 0);
  EXPECT_EQ(report["failing"][0]["rank_a"], 0);
  EXPECT_EQ(report["failing"][0]["rank"], 1);
  // All of a step.
  EXPECT_THAT(Diff({"a:1/1", "b:1/1"}).out, HasSubstr("\nORIGIN    rank 1, step 1, second"));
}

TEST_F(DiffProcessTest, AWholeRunMeetsAnAddressAtThatAddress) {
  MakeRun("a", {{2, 2}, {2, 2}});
  MakeRun("b", {{2, 2}, {2, 4}});
  for (const char* whole : {"a", "a@0", "a/rank1"}) {
    const auto done = Diff({whole, "b:1/1/second"});
    EXPECT_EQ(done.status, 1) << done.err;
    EXPECT_THAT(done.out, StartsWith("A " + std::string(whole) + ":1/1/second"));
    EXPECT_THAT(done.out, HasSubstr("\npaired    1 record in 1 pass; none without a partner"));
  }
  EXPECT_EQ(Report({"b:1/1/second", "a"})["ranks"], Json::parse("[[1, 1]]"));
  EXPECT_EQ(Report({"a/rank0", "b:1/1/second"})["ranks"], Json::parse("[[0, 1]]"));
  EXPECT_THAT(Diff({"a", "b:7/1/second"}).err, HasSubstr("there is no step 7; there are 0-1"));
  EXPECT_THAT(Diff({"a", "b:1/1/second", "--steps", "1"}).err,
              HasSubstr("--steps: the address names a step already"));
  MakeRun("one", {{2, 2}});
  const auto refused = Diff({"a", "one:1/0/second"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err,
              HasSubstr("'one:1/0/second' is of one step of one rank and 'a@0' has steps 0-1 on "
                        "ranks 0-1: name a step and a rank on both sides, e.g. a@0:1/0, or"));
  // A step of ranks that are put together is no address.
  EXPECT_EQ(Diff({"a", "one", "--steps", "1", "--select", "second"}).status, 0);
}

TEST_F(DiffProcessTest, OfARoleThatThereIsNotThoseThatThereAreAreNamed) {
  MakeRun("a", {{2, 2}});
  const auto role = Diff({"a", "a:1/0/second@outptu"});
  EXPECT_EQ(role.status, 2);
  EXPECT_THAT(role.err, HasSubstr("a:1/0/second@outptu: no tensor there is named 'second@outptu'; "
                                  "'second' has @"));
  EXPECT_THAT(role.err, HasSubstr("@output#"));
  EXPECT_THAT(Diff({"a:1/0/second@output#7", "a"}).err, HasSubstr("; 'second' has @"));
  EXPECT_THAT(Diff({"a", "a:1/0/nowhere@output"}).err, Not(HasSubstr("has @")));
}

TEST_F(DiffProcessTest, NanOnBothSidesIsTold) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  MakeRun("a", {{2, 2, nan}, {2, nan, nan}});
  const auto done = Diff({"a", "a"});
  EXPECT_EQ(done.status, 0) << done.out << done.err;
  EXPECT_THAT(done.out, HasSubstr("\nSAME  18 of 18 bit for bit\n"));
  // Two of the three modules return it.
  EXPECT_THAT(done.out,
              HasSubstr("note      6 records hold NaN on both sides, first: rank 1, step 1, "
                        "second, output; where"));
  EXPECT_THAT(done.out, HasSubstr("tdump-view a@0 --nan"));
  MakeRun("b", {{2, 2}, {2, 2}});
  EXPECT_THAT(Diff({"b", "b"}).out, Not(HasSubstr("NaN")));
}

// One of them was read, as its bits differ; the other is equal by hash.
TEST_F(DiffProcessTest, NanInPairsThatAreEqualByHashCountsToo) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  MakeOneStep("a", {Out<float>("x", "float32", {nan, 3}), Out<float>("y", "float32", {1, nan})});
  MakeOneStep(
      "b", {Out<float>("x", "float32", {nan, 3}), Out<float>("y", "float32", {1 + 0x1p-23f, nan})});
  const auto done = Diff({"a", "b"});
  EXPECT_EQ(done.status, 0) << done.out << done.err;
  EXPECT_THAT(done.out, HasSubstr("note      2 records hold NaN on both sides, first: rank 0, "
                                  "step 0, x, output"));
  EXPECT_THAT(done.out, Not(HasSubstr("at least")));
}

TEST_F(DiffProcessTest, BisectTellsTroubleFromADifference) {
  MakeRun("a", {{2}});
  MakeRun("b", {{4}});
  EXPECT_EQ(Diff({"a", "a", "--bisect"}).status, 0);
  EXPECT_EQ(Diff({"a", "b", "--bisect"}).status, 1);
  EXPECT_EQ(Diff({"a", "nowhere", "--bisect"}).status, 125);
  EXPECT_EQ(Diff({"a", "b", "--bisect", "--no-such-option"}).status, 125);
  EXPECT_EQ(Diff({"a", "a", "--bisect", "--select", "nothing"}).status, 125);
}

TEST_F(DiffProcessTest, MemoryDoesNotGrowWithThePayload) {
  std::vector<float> values(1 << 20);
  for (const std::string name : {"a", "b"}) {
    ProcessImage process(env_, Path(name), {});
    std::vector<TensorImage> tensors;
    for (int i = 0; i < 10; ++i) {
      values[7] = name == "a" ? 1.0f : 2.0f;
      values[8] = static_cast<float>(i);  // no two payloads are equal
      tensors.push_back(Out<float>("m" + std::to_string(i), "float32", values));
    }
    process.Tensors(0, tensors).Exit(1);
  }
  // What this process holds when it forks counts as the child's.
  ::malloc_trim(0);
  const auto done = Diff({"a", "b", "-j", "2"});
  EXPECT_EQ(done.status, 1) << done.out << done.err;
  EXPECT_LT(done.peak_kib, 32 * 1024);  // 80 MiB were read
}

TEST_F(DiffProcessTest, AnAddressThatNamesNothingNamesItsNeighbours) {
  MakeRun("a", {{2}});
  const auto done = Diff({"a:0/0/second", "a:0/0/secnd"});
  EXPECT_EQ(done.status, 2);
  EXPECT_THAT(done.err, HasSubstr("no tensor there is named 'secnd'. Near: 'second'"));
  EXPECT_THAT(Diff({"a:0/0/second", "a:7/0/secnd"}).err, Not(HasSubstr("Near")));
}

TEST_F(DiffProcessTest, AFileOfSomethingElseIsNoDamage) {
  MakeRun("a", {{2}});
  std::ofstream(Path("tdump.yaml")) << "steps: 0-3\n";
  const auto done = Diff({"a", "tdump.yaml"});
  EXPECT_EQ(done.status, 2);
  EXPECT_EQ(done.out, "");
  EXPECT_EQ(
      done.err,
      "tdump-diff: 'tdump.yaml' is no file of tensors: none of torch.save (.pt), NumPy (.npy, "
      ".npz) and safetensors; and no run either\n");
}

}  // namespace
}  // namespace tdump::tools
