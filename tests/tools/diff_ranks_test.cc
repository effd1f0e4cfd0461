// tdump-diff as a process, on ranks that are put together or compared with each other.
#include <gmock/gmock.h>

#include "tests/tools/diff_process.h"

namespace tdump::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class DiffRanksTest : public DiffProcessTest {};

// What cannot be told to be selected is compared.
// Ranks 0 to 3 at (tp 0, dp 0), (tp 1, dp 0), (tp 0, dp 1), (tp 1, dp 1).
TEST_F(DiffRanksTest, ReplicasOfOneRunAreCompared) {
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
  EXPECT_THAT(unknown.err, HasSubstr("fastest first: --topology tp=4, or tp=2,dp=2\n"));
}

TEST_F(DiffRanksTest, RanksArePutTogetherWhereTheirNumbersDiffer) {
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
TEST_F(DiffRanksTest, GradientsOfDataParallelRanksAreAveragedWhereItIsSaid) {
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
TEST_F(DiffRanksTest, PackedSequencesAreSplitByTheLengthsOfTheirStep) {
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

TEST_F(DiffRanksTest, RulesOfDimsSayWhatIsWrongWithThem) {
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

}  // namespace
}  // namespace tdump::tools
