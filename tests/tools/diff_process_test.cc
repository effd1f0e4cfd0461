// tdump-diff as a process, on runs made with the writers.
#include <gmock/gmock.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/coordinator/run_image.h"
#include "tests/tools/scratch.h"

namespace tdump::tools {
namespace {

using coordinator::test::BytesOf;
using coordinator::test::ProcessImage;
using coordinator::test::TensorImage;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using Json = nlohmann::json;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <class T>
TensorImage Out(const std::string& path, const std::string& dtype, const std::vector<T>& values,
                std::vector<int64_t> sizes = {}) {
  if (sizes.empty()) sizes = {static_cast<int64_t>(values.size())};
  return {.path = path,
          .bytes = BytesOf(values),
          .dtype = dtype,
          .bits = 8 * static_cast<int>(sizeof(T)),
          .sizes = std::move(sizes)};
}

// Three modules of one output each, of step `step`.
std::vector<TensorImage> Model(float second = 2.0f) {
  return {Out<float>("first", "float32", {1, 1.5f}),
          Out<float>("second", "float32", {second, 2.5f}),
          Out<float>("third", "float32", {second, 3.5f})};
}

class DiffProcessTest : public test::ScratchTest {
 protected:
  // `step_values`: what "second" returns in each step, by rank.
  void MakeRun(const std::string& name, const std::vector<std::vector<float>>& step_values,
               uint64_t first_step = 0) {
    const auto world = static_cast<int32_t>(step_values.size());
    for (int32_t rank = 0; rank < world; ++rank) {
      ProcessImage process(env_, Path(name), {.rank = rank, .world = world});
      uint64_t step = first_step;
      for (const float value : step_values[static_cast<size_t>(rank)]) {
        process.Tensors(step, Model(value)).Map(step, step, 1);
        ++step;
      }
      process.Exit(step);
    }
  }
  void MakeOneStep(const std::string& name, const std::vector<TensorImage>& tensors) {
    ProcessImage(env_, Path(name), {}).Tensors(0, tensors).Exit(1);
  }

  test::Finished Diff(std::vector<std::string> arguments) { return Run("tdump-diff", arguments); }
  Json Report(std::vector<std::string> arguments) {
    arguments.push_back("--json");
    return Json::parse(Diff(arguments).out);
  }
  // Of the one record of two runs; its row in the report.
  Json Row(const TensorImage& a, const TensorImage& b, int expected_status) {
    std::filesystem::remove_all(Path("a"));
    std::filesystem::remove_all(Path("b"));
    MakeOneStep("a", {a});
    MakeOneStep("b", {b});
    const auto done = Diff({"a", "b", "--jsonl", Path("rows"), "--quiet"});
    EXPECT_EQ(done.status, expected_status) << done.err;
    EXPECT_EQ(done.out, "");
    return Json::parse(Text(Path("rows")));
  }
};

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
  EXPECT_EQ(data["map"]["by_rank"], Json::parse(R"(["22", "24", "24"])"));
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
    const std::string part = Path("page." + std::to_string(child) + ".part");
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

// What cannot be told to be selected is compared.
// Ranks 0 to 3 at (tp 0, dp 0), (tp 1, dp 0), (tp 0, dp 1), (tp 1, dp 1).
TEST_F(DiffProcessTest, ReplicasOfOneRunAreCompared) {
  const auto make = [&](const std::string& name, float of_rank_3) {
    for (int32_t rank = 0; rank < 4; ++rank) {
      TensorImage weight =
          Out<float>("fc", "float32", {static_cast<float>(rank % 2), rank == 3 ? of_rank_3 : 2.0f});
      weight.role = Role::kParam;
      weight.arg = "weight";
      ProcessImage(env_, Path(name), {.rank = rank, .world = 4}).Tensors(0, {weight}).Exit(1);
    }
  };
  make("clean", 2);
  make("wrong", 3);
  const std::vector<std::string> across = {"--across", "dp", "--topology", "tp=2,dp=2"};
  const auto diff = [&](const std::string& run, std::vector<std::string> options) {
    options.insert(options.begin(), run);
    return Diff(options);
  };
  const auto clean = diff("clean", across);
  EXPECT_EQ(clean.status, 0) << clean.out << clean.err;
  EXPECT_THAT(clean.out,
              StartsWith("A clean@0, the first rank of each dp group    ranks 0-1 of 4   float32   "
                         "step 0\n"
                         "B clean@0, the other ranks of each dp group   ranks 2-3 of 4   float32   "
                         "step 0\n"));
  EXPECT_THAT(clean.out, HasSubstr("\nSAME  2 of 2 bit for bit\n"));

  const auto wrong = diff("wrong", across);
  EXPECT_EQ(wrong.status, 1) << wrong.out << wrong.err;
  EXPECT_THAT(wrong.out, HasSubstr("not on rank 3: fc.weight"));
  const Json report = Report({"wrong", "--across", "dp", "--topology", "tp=2,dp=2"});
  EXPECT_EQ(report["ranks"], Json::parse("[[0, 2], [1, 3]]"));
  EXPECT_EQ(report["failing"][0]["rank_a"], 1);
  EXPECT_EQ(report["failing"][0]["rank"], 3);

  // One first rank of four others' is named once.
  EXPECT_THAT(diff("clean", {"--across", "dp", "--topology", "dp=4"}).out,
              StartsWith("A clean@0, the first rank of each dp group    rank 0 of 4 "));
  const auto stages = diff("clean", {"--across", "pp", "--topology", "tp=2,pp=2"});
  EXPECT_EQ(stages.status, 2);
  EXPECT_THAT(stages.err, HasSubstr("--across pp: its ranks hold different layers, not copies"));
  const auto unknown = diff("clean", {"--across", "tp"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.err, HasSubstr("fastest first: --topology tp=4,dp=2\n"));
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

TEST_F(DiffProcessTest, RanksArePutTogetherWhereTheirNumbersDiffer) {
  MakeOneStep("one", {Out<float>("fc", "float32", {1, 2, 3, 4}, {2, 2})});
  const std::vector<std::vector<float>> columns = {{1, 3}, {2, 4}};
  for (int32_t rank : {0, 1}) {
    ProcessImage(env_, Path("two"), {.rank = rank, .world = 2})
        .Tensors(0, {Out<float>("fc", "float32", columns[static_cast<size_t>(rank)], {2, 1})})
        .Exit(1);
  }
  const auto same = Diff({"one", "two"});
  EXPECT_EQ(same.status, 0) << same.out << same.err;
  EXPECT_THAT(same.out, HasSubstr("\nSAME  1 of 1 bit for bit\n"));
  const Json report = Report({"one", "two", "--dims", "B:fc: b h[tp]", "--topology", "B:tp=2"});
  EXPECT_EQ(report["verdict"], "same") << report.dump();
  EXPECT_EQ(report["job"]["topology_b"], "tp=2");
  EXPECT_THAT(report["job"]["layouts_b"].begin().key(), HasSubstr("(--dims)"));
  // The wrong dims, said by the user, hold.
  EXPECT_EQ(Diff({"one", "two", "--dims", "B:fc: b[tp] h"}).status, 1);
}

// Gradients of half the batch each, before they are reduced; then, reduced, copies.
TEST_F(DiffProcessTest, GradientsOfDataParallelRanksAreAveragedWhereItIsSaid) {
  const auto gradients = [](const std::vector<float>& local, const std::vector<float>& reduced) {
    TensorImage weight = Out<float>("fc", "float32", local, {2, 2});
    weight.role = Role::kParamGrad;
    weight.arg = "weight";
    return std::vector<TensorImage>{weight, Out<float>("reduced", "float32", reduced, {2, 2})};
  };
  const std::vector<float> whole = {1, -2, 3, 0.5f};
  MakeOneStep("one", gradients(whole, whole));
  const std::vector<std::vector<float>> local = {{0, -3, 4, 0.25f}, {2, -1, 2, 0.75f}};
  for (int32_t rank : {0, 1}) {
    ProcessImage(env_, Path("two"), {.rank = rank, .world = 2})
        .Tensors(0, gradients(local[static_cast<size_t>(rank)], whole))
        .Exit(1);
  }
  const auto differs = Diff({"one", "two", "--topology", "B:dp=2"});
  EXPECT_EQ(differs.status, 1) << differs.err;
  EXPECT_THAT(differs.out, HasSubstr("the mean of what the ranks of B hold agrees with A"));
  const auto sum = Diff({"one", "two", "--dims", "B:@param_grad: i o partial[dp]"});
  EXPECT_EQ(sum.status, 1) << sum.err;
  EXPECT_THAT(sum.out, HasSubstr("\nDIFFERS  1 of 2 outside their bound"));
  EXPECT_THAT(sum.out, HasSubstr("B is 2 times A, within"));
  EXPECT_THAT(sum.out, HasSubstr("B is the sum over the ranks and 2 times A"));
  const std::string rule = "B:@param_grad: ... partial[dp:mean]";
  const auto same = Diff({"one", "two", "--topology", "B:dp=2", "--dims", rule});
  EXPECT_EQ(same.status, 0) << same.out << same.err;
  EXPECT_THAT(same.out, HasSubstr("mean of 2 partials on dp (--dims)"));
  EXPECT_THAT(same.out, HasSubstr("replicated on 2 ranks (inferred)"));
  EXPECT_EQ(Diff({"one", "two", "--dims", "B:reduced|@param_grad: ... partial[dp:mean]"}).status,
            0);
}

// Two steps of packed sequences of other lengths, which each step records.
TEST_F(DiffProcessTest, PackedSequencesAreSplitByTheLengthsOfTheirStep) {
  const auto step = [](const std::vector<int32_t>& cu_seqlens, const std::vector<float>& tokens) {
    TensorImage lengths = Out<int32_t>("attn", "int32", cu_seqlens);
    lengths.role = Role::kInput;
    lengths.arg = "kwargs.cu_seqlens";
    return std::vector<TensorImage>{lengths, Out<float>("attn", "float32", tokens)};
  };
  const auto make = [&](const std::string& name, const std::vector<std::vector<int32_t>>& lengths,
                        const std::vector<std::vector<std::vector<float>>>& held) {
    const auto world = static_cast<int32_t>(held.size());
    for (int32_t rank = 0; rank < world; ++rank) {
      ProcessImage process(env_, Path(name), {.rank = rank, .world = world});
      for (uint64_t i = 0; i < lengths.size(); ++i)
        process.Tensors(i, step(lengths[i], held[static_cast<size_t>(rank)][i])).Map(i, i, 1);
      process.Exit(lengths.size());
    }
  };
  // 4 and 8 tokens, then 8 and 4; each folded over two ranks.
  const std::vector<std::vector<int32_t>> lengths = {{0, 4, 12}, {0, 8, 12}};
  const std::vector<float> whole = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const std::vector<std::vector<std::vector<float>>> shards = {
      {{0, 3, 4, 5, 10, 11}, {0, 1, 6, 7, 8, 11}}, {{1, 2, 6, 7, 8, 9}, {2, 3, 4, 5, 9, 10}}};
  make("one", lengths, {{whole, whole}});
  make("two", lengths, shards);
  const std::string rule = "attn@output: t[cp:zigzag:packed=@cu_seqlens]";
  const auto same = Diff({"one", "two", "--dims", rule});
  EXPECT_EQ(same.status, 0) << same.out << same.err;
  EXPECT_THAT(same.out, HasSubstr("\nSAME  4 of 4 bit for bit"));
  // The lengths of the first step do not hold for the second.
  EXPECT_EQ(Diff({"one", "two", "--dims", "attn@output: t[cp:zigzag:packed=4+8]"}).status, 1);
  EXPECT_EQ(
      Diff({"one", "two", "--dims", "attn@output: t[cp:zigzag:packed=4+8]", "--steps", "0"}).status,
      0);
  // What a rank recorded of another batch.
  make("wrong", {{0, 4, 12}, {0, 4, 12}}, shards);
  const auto wrong = Diff({"one", "wrong", "--dims", rule});
  EXPECT_EQ(wrong.status, 1);
  EXPECT_THAT(wrong.out, HasSubstr("step 1, attn, "));
  EXPECT_THAT(Diff({"one", "two", "--dims", "attn@output: t[cp:packed=@lengths]"}).out,
              HasSubstr("no record of this step is called 'lengths'"));
  EXPECT_THAT(Diff({"one", "two", "--dims", "attn@output: t[cp:packed=lengths]"}).err,
              HasSubstr("expected numbers, or @ and the name of a record"));
}

TEST_F(DiffProcessTest, RulesOfDimsSayWhatIsWrongWithThem) {
  MakeRun("a", {{2}});
  const auto error = [&](const std::string& option, const std::string& value) {
    const auto done = Diff({"a", "a", option, value});
    EXPECT_EQ(done.status, 2) << value;
    return done.err;
  };
  EXPECT_THAT(error("--dims", "b s h"), HasSubstr("expected 'REGEX: dims'"));
  EXPECT_THAT(error("--dims", "x(: b s h"), HasSubstr("--dims"));
  EXPECT_THAT(error("--dims", "x: b s["), HasSubstr("--dims"));
  EXPECT_THAT(error("--topology", "tp=3"), HasSubstr("a@0"));
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

TEST_F(DiffProcessTest, ShapesAreNeverBroadcast) {
  const std::vector<float> three(3, 3.0f);
  const Json row =
      Row(Out<float>("x", "float32", three), Out<float>("x", "float32", three, {3, 1}), 1);
  EXPECT_EQ(row["verdicts"]["shape"], "differs");
  EXPECT_EQ(row["verdicts"]["tolerance"], "not judged");
  EXPECT_FALSE(row.contains("metrics"));
  Row(Out<float>("x", "float32", {3}), Out<float>("x", "float32", std::vector<float>(1000, 3)), 1);
}

// D13: {1000, 1e-6} against {1000, 2e-5} passes; a person can judge.
TEST_F(DiffProcessTest, TheLargestRelativeErrorHasItsPlace) {
  const Json row = Row(Out<float>("x", "float32", {1000, 1000, 1e-6f}),
                       Out<float>("x", "float32", {1000, 1000.0001f, 2e-5f}), 0);
  EXPECT_EQ(row["metrics"]["worst"]["position"], Json::parse("[1]")) << row;
  EXPECT_EQ(row["metrics"]["worst_relative"],
            Json::parse(R"({"position": [2], "a": "1e-06", "b": "2e-05"})"));
  EXPECT_NEAR(row["metrics"]["max_rel"].get<double>(), 0.95, 1e-6);
}

TEST_F(DiffProcessTest, SharedZerosHideNoRelativeDifference) {
  const Json row = Row(Out<float>("x", "float32", {0, 1}), Out<float>("x", "float32", {0, 2}), 1);
  EXPECT_EQ(row["metrics"]["max_abs"], 1.0);
  EXPECT_EQ(row["metrics"]["max_rel"], 0.5);
  EXPECT_EQ(row["metrics"]["outside"], 1);
  EXPECT_EQ(row["metrics"]["elements"], 2);
}

TEST_F(DiffProcessTest, NanIsNeverAPass) {
  const Json row =
      Row(Out<float>("x", "float32", {1, 2}), Out<float>("x", "float32", {kNan, 2}), 1);
  EXPECT_EQ(row["verdicts"]["special"], "differs");
  EXPECT_EQ(row["verdicts"]["tolerance"], "differs");
  EXPECT_EQ(row["metrics"]["nan_mismatch"], 1);
  EXPECT_EQ(row["metrics"]["worst"]["b"], "nan");
  Row(Out<float>("x", "float32", {kNan}), Out<float>("x", "float32", {1}), 1);
  Row(Out<float>("x", "float32", {kNan}), Out<float>("x", "float32", {kNan}), 0);
}

TEST_F(DiffProcessTest, IntegersAreExact) {
  const auto most = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(Row(Out<uint8_t>("x", "uint8", {1}), Out<uint8_t>("x", "uint8", {254}),
                1)["metrics"]["max_abs_text"],
            "253");
  EXPECT_EQ(Row(Out<uint8_t>("x", "bool", {0}), Out<uint8_t>("x", "bool", {1}),
                1)["metrics"]["max_abs_text"],
            "1");
  const Json wide = Row(Out<uint64_t>("x", "uint64", {uint64_t{1} << 63}),
                        Out<uint64_t>("x", "uint64", {most}), 1);
  EXPECT_EQ(wide["metrics"]["max_abs_text"], "9223372036854775807");
  EXPECT_EQ(wide["metrics"]["worst"]["a"], "9223372036854775808");
  EXPECT_EQ(wide["metrics"]["worst"]["b"], "18446744073709551615");
}

TEST_F(DiffProcessTest, NumbersBeyondDoublesStayExact) {
  const uint64_t step = (uint64_t{1} << 53) + 1;
  MakeRun("a", {{2}}, step);
  MakeRun("b", {{4}}, step);
  EXPECT_EQ(Report({"a", "b"})["origin"]["step"], step);
  EXPECT_THAT(Diff({"a", "b"}).out, HasSubstr("step 9007199254740993"));
}

TEST_F(DiffProcessTest, ADamagedPayloadIsNoDifference) {
  MakeRun("a", {{2}});
  MakeRun("b", {{4}});
  const std::string file = Path("b/rank0_pid100/pass00000.tdp");
  std::string bytes = Text(file);
  const size_t at = bytes.find(BytesOf<float>({4.0f, 2.5f}));
  ASSERT_NE(at, std::string::npos);
  bytes[at] ^= 1;
  ASSERT_TRUE(WriteFileAtomically(env_, file, bytes, 0600).ok());
  const auto done = Diff({"a", "b", "--select", "second"});
  EXPECT_EQ(done.status, 2);
  EXPECT_THAT(done.out, HasSubstr("DAMAGED  1 place could not be read; of 0 pairs"));
  EXPECT_THAT(done.out, HasSubstr("pass00000.tdp"));
  EXPECT_THAT(done.out, Not(HasSubstr("ORIGIN")));
  const Json report = Report({"a", "b"});
  EXPECT_EQ(report["verdict"], "damaged");
  EXPECT_EQ(report["counts"]["unreadable"], 1);
  EXPECT_EQ(report["counts"]["failing"], 1);  // of "third", which is whole
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

TEST_F(DiffProcessTest, VerifyReadsWhatHashesSayIsEqual) {
  MakeRun("a", {{2}});
  MakeRun("b", {{2}});
  EXPECT_EQ(Diff({"a", "b", "--verify"}).status, 0);
  const Json report = Report({"a", "b", "--verify"});
  EXPECT_THAT(report["notes"].dump(), HasSubstr("equal by hash, and read (3 pairs)"));
  const std::string file = Path("b/rank0_pid100/pass00000.tdp");
  std::string bytes = Text(file);
  const size_t at = bytes.find(BytesOf<float>({2.0f, 2.5f}));
  ASSERT_NE(at, std::string::npos);
  bytes[at] ^= 1;
  ASSERT_TRUE(WriteFileAtomically(env_, file, bytes, 0600).ok());
  EXPECT_EQ(Diff({"a", "b"}).status, 0);
  const auto damaged = Diff({"a", "b", "--verify"});
  EXPECT_EQ(damaged.status, 2);
  EXPECT_THAT(damaged.out, HasSubstr("pass00000.tdp"));
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

TEST_F(DiffProcessTest, ATruncatedPassIsDamageWhereverItEnds) {
  MakeRun("a", {{2}});
  MakeRun("b", {{2}});
  const std::string file = Path("b/rank0_pid100/pass00000.tdp");
  const std::string bytes = Text(file);
  for (size_t i = 0; i < 12; ++i) {
    const std::string cut = bytes.substr(0, bytes.size() * i / 12);
    ASSERT_TRUE(WriteFileAtomically(env_, file, cut, 0600).ok());
    const auto done = Diff({"a", "b"});
    EXPECT_EQ(done.status, 2) << cut.size() << ": " << done.out;
    EXPECT_THAT(done.out + done.err, HasSubstr("pass00000.tdp")) << cut.size();
    EXPECT_THAT(done.out, Not(HasSubstr("ORIGIN"))) << cut.size();
  }
}

TEST_F(DiffProcessTest, AKilledRankIsComparedAsFarAsItCame) {
  MakeRun("a", {{2, 2}, {2, 2}});
  MakeRun("b", {{2, 2}});
  std::filesystem::remove_all(Path("b"));
  ProcessImage(env_, Path("b"), {.rank = 0, .world = 2})
      .Tensors(0, Model())
      .Tensors(1, Model())
      .Exit(2);
  ProcessImage(env_, Path("b"), {.rank = 1, .world = 2}).Tensors(0, Model());
  const auto done = Diff({"a", "b"});
  EXPECT_EQ(done.status, 1) << done.err;
  EXPECT_THAT(done.out, HasSubstr("steps 0-1   INCOMPLETE\n  missing   rank 1 (node0, pid 101) "
                                  "wrote no closing record"));
  EXPECT_THAT(done.out, HasSubstr("DIFFERS  3 records without a partner; the 9 pairs agree\n"));
  EXPECT_THAT(done.out, HasSubstr("  only in A   rank 1, step 1: the whole step (3 records); rank "
                                  "1: "));
  EXPECT_EQ(Report({"a", "b"})["b"]["complete"], false);
  EXPECT_EQ(Diff({"a", "b", "--steps", "0"}).status, 0);
  // What is missing of rank 1 is nothing to rank 0.
  EXPECT_THAT(Diff({"a", "b", "--ranks", "0"}).out, Not(HasSubstr("INCOMPLETE")));
  EXPECT_THAT(Diff({"a/rank0", "b/rank0"}).out, Not(HasSubstr("INCOMPLETE")));
  EXPECT_THAT(Diff({"a/rank1", "b/rank1"}).out, HasSubstr("missing   rank 1 (node0, pid 101)"));
  // A run that was asked to be whole.
  ASSERT_TRUE(WriteFileAtomically(env_, Path("b/config.yaml"), "strict: true\n", 0600).ok());
  const auto strict = Diff({"a", "b", "--steps", "0"});
  EXPECT_EQ(strict.status, 2);
  EXPECT_THAT(strict.err, HasSubstr("b@0 is incomplete and its configuration says strict"));
}

TEST_F(DiffProcessTest, ATornPassIsComparedAsFarAsItGoes) {
  ProcessImage(env_, Path("a"), {}).Pass(0, {"x", "yy", "zzz"}).Exit(1);
  ProcessImage(env_, Path("whole"), {}).TornPass(0, {"x", "yy", "zzz"}, 0);
  uint64_t most = 0;
  for (const uint64_t cut : {100, 400, 700, 900}) {
    std::filesystem::remove_all(Path("b"));
    ProcessImage(env_, Path("b"), {}).TornPass(0, {"x", "yy", "zzz"}, cut);
    const Json report = Report({"a", "b"});
    EXPECT_NE(report["verdict"], "damaged") << cut;
    EXPECT_EQ(report["counts"]["failing"], 0) << cut;
    const uint64_t paired = report["counts"]["paired"];
    EXPECT_EQ(paired + report["counts"]["unpaired_a"].get<uint64_t>(), 3) << cut;
    most = std::max(most, paired);
  }
  EXPECT_EQ(most, 3u);  // only index and footer were missing
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

}  // namespace
}  // namespace tdump::tools
