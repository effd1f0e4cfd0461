#include "compare/unshard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/compare/sources.h"

namespace tdump::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Shards of ranks in order, with their data.
class Job {
 public:
  explicit Job(std::string_view topology, int32_t world)
      : topology_(*Topology::Parse(topology, world)) {}
  explicit Job(Topology topology) : topology_(std::move(topology)) {}

  Job& Add(int32_t rank, Source source) {
    shards_.push_back({rank, source->dtype(), source->shape()});
    sources_.push_back(std::move(source));
    return *this;
  }
  Result<UnshardPlan> Plan(std::string_view dims, const SizeTable& sizes = {}) const {
    const auto parsed = Dims::Parse(dims);
    EXPECT_TRUE(parsed.ok()) << parsed.status().message();
    return PlanUnshard(shards_, *parsed, topology_, sizes);
  }
  std::string Error(std::string_view dims, const SizeTable& sizes = {}) const {
    const auto plan = Plan(dims, sizes);
    EXPECT_FALSE(plan.ok()) << plan->how;
    return plan.status().message();
  }
  std::vector<int32_t> Whole(std::string_view dims, const SizeTable& sizes = {}) {
    const auto plan = Plan(dims, sizes);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    if (!plan.ok()) return {};
    how = plan->how;
    shape = plan->shape;
    const auto whole = OpenPlan(*plan, [&](size_t shard) {
      opened.push_back(shard);
      return Result<Source>(sources_[shard]);
    });
    EXPECT_TRUE(whole.ok()) << whole.status().message();
    EXPECT_EQ((*whole)->shape(), plan->shape);
    return IntsOf(*whole);
  }

  std::string how;
  Shape shape;
  std::vector<size_t> opened;

 private:
  Topology topology_;
  std::vector<Shard> shards_;
  std::vector<Source> sources_;
};

Job TwoOf(Source first, Source second) {
  Job job("tp=2", 2);
  job.Add(0, std::move(first)).Add(1, std::move(second));
  return job;
}

TEST(Unshard, ConcatenatesOnADimension) {
  Job job = TwoOf(Ints({2, 1}, {1, 2}), Ints({2, 2}, {3, 4, 5, 6}));
  EXPECT_THAT(job.Whole("b h[tp]"), ElementsAre(1, 3, 4, 2, 5, 6));
  EXPECT_THAT(job.shape, ElementsAre(2, 3));
  EXPECT_EQ(job.how, "concatenated on tp");
}

TEST(Unshard, AddsPartialSums) {
  Job job = TwoOf(Ints({2}, {1, 2}), Ints({2}, {10, 20}));
  EXPECT_THAT(job.Whole("h partial[tp]"), ElementsAre(11, 22));
  EXPECT_EQ(job.how, "sum of 2 partials on tp");
}

TEST(Unshard, TakesTheMeanOfPartials) {
  const auto of = [](const Job& job, std::string_view dims) {
    const auto plan = job.Plan(dims);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    return plan.ok() ? *plan : UnshardPlan{};
  };
  const auto half = MakeSource<float>("float32", {2}, {1, 2});
  Job two("dp=2", 2);
  two.Add(0, half).Add(1, half);
  EXPECT_EQ(of(two, "h partial[dp:mean]").how, "mean of 2 partials on dp");
  EXPECT_EQ(of(two, "h partial[dp:mean]").divisor, 2u);
  EXPECT_EQ(of(two, "h partial[dp]").divisor, 1u);
  Job one("dp=1", 1);
  one.Add(0, half);
  EXPECT_EQ(of(one, "h partial[dp:mean]").how, "on rank 0");
  EXPECT_EQ(of(one, "h partial[dp:mean]").divisor, 1u);
  Job four("tp=2 dp=3", 6);
  for (const int32_t rank : {0, 1, 2, 3, 4, 5}) four.Add(rank, half);
  EXPECT_EQ(of(four, "h partial[tp,dp:mean]").how,
            "mean of 3 partials on dp, sum of 2 partials on tp");
  EXPECT_EQ(of(four, "h partial[tp,dp:mean]").divisor, 3u);
  EXPECT_EQ(of(four, "h partial[tp:mean,dp:mean]").divisor, 6u);
  EXPECT_EQ(of(four, "h partial[dp:mean] replicated[tp]").how,
            "mean of 3 partials on dp, replicated on 2 ranks");
  EXPECT_EQ(TwoOf(Ints({1}, {1}), Ints({1}, {2})).Error("h partial[tp:mean]"),
            "the ranks hold int32, of which no mean is taken");
}

TEST(Unshard, OfReplicasTheFirstIsReadAndTheOthersAreNamed) {
  Job job = TwoOf(Ints({2}, {1, 2}), Ints({2}, {1, 2}));
  const auto plan = job.Plan("h");
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->is_one_shard);
  ASSERT_EQ(plan->replicas.size(), 1u);
  EXPECT_EQ(plan->replicas[0].first, 0u);
  EXPECT_THAT(plan->replicas[0].others, ElementsAre(1));
  EXPECT_THAT(job.Whole("h replicated[tp]"), ElementsAre(1, 2));
  EXPECT_THAT(job.opened, ElementsAre(0));
  EXPECT_EQ(job.how, "replicated on 2 ranks");
}

TEST(Unshard, LiveReplicasOfDataGiveTheBatchInOrder) {
  Job job("tp=2 dp=2", 4);
  // Rank = tp + 2 * dp; the columns are tp's, the rows dp's. Given in any order.
  job.Add(3, Ints({1, 1}, {11})).Add(0, Ints({1, 1}, {0}));
  job.Add(2, Ints({1, 1}, {10})).Add(1, Ints({1, 1}, {1}));
  EXPECT_THAT(job.Whole("b[dp] h[tp]"), ElementsAre(0, 1, 10, 11));
  EXPECT_EQ(job.how, "concatenated on dp, tp");
}

TEST(Unshard, PartsOfAFusedDimension) {
  // (b=2 s) with s split: each rank holds one column of every batch entry.
  Job job = TwoOf(Ints({2}, {0, 2}), Ints({2}, {1, 3}));
  EXPECT_THAT(job.Whole("(b=2 s[tp])"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(job.shape, ElementsAre(4));
  EXPECT_THAT(job.Whole("(b s[tp])", {{"b", {2}}}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(job.Whole("(b s)[tp]"), ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(job.Error("(b s[tp])"), HasSubstr("the size of b or of s is needed, as in b=2"));
  EXPECT_THAT(job.Error("(b=3 s[tp])"), HasSubstr("does not have parts of 3"));
}

TEST(Unshard, PaddingBeyondTheGivenSizeIsDropped) {
  Job job = TwoOf(Ints({2, 1}, {0, 1}), Ints({2, 1}, {2, 99}));
  EXPECT_THAT(job.Whole("v=3[tp] h"), ElementsAre(0, 1, 2));
  EXPECT_EQ(job.how, "concatenated on tp, 1 units of padding dropped from v");
  EXPECT_THAT(job.Whole("v=2[tp] h"), ElementsAre(0, 1));
  EXPECT_THAT(job.Error("v=5[tp] h"),
              HasSubstr("dimension v should have 5 units, the shards hold 4"));
}

TEST(Unshard, UnevenTokensAndARankWithoutAny) {
  Job job("ep=3", 3);
  job.Add(0, Ints({2, 1}, {1, 2})).Add(1, Ints({0, 1}, {})).Add(2, Ints({1, 1}, {3}));
  EXPECT_THAT(job.Whole("t[ep] h"), ElementsAre(1, 2, 3));
  EXPECT_THAT(job.opened, ElementsAre(0, 2));
}

TEST(Unshard, NothingAtAll) {
  Job job = TwoOf(Ints({0, 2}, {}), Ints({0, 2}, {}));
  EXPECT_THAT(job.Whole("t[tp] h"), IsEmpty());
  EXPECT_THAT(job.shape, ElementsAre(0, 2));
}

TEST(Unshard, AMissingShardIsNamedWithItsRanks) {
  Job job("tp=2 dp=2", 4);
  job.Add(0, Counting({2})).Add(2, Counting({2}));
  EXPECT_EQ(job.Error("h[tp]"), "missing shard at tp 1 (ranks 1,3)");
  job.Add(1, Counting({2}));
  EXPECT_EQ(job.Error("h[tp]"), "missing shard at dp 1, tp 1 (rank 3), though rank 2 holds one");
  EXPECT_EQ(job.Error("h partial[tp,dp]"), "missing shard at dp 1, tp 1 (rank 3)");
}

TEST(Unshard, AMissingCopyIsNamedWhereTheDimsSayReplicated) {
  Job job("tp=2", 2);
  job.Add(0, Counting({2}));
  EXPECT_THAT(job.Error("h replicated[tp]"), HasSubstr("missing copy at tp 1 (rank 1)"));
  EXPECT_EQ(job.Plan("h")->how, "on rank 0");  // a tensor that lives on some ranks only
}

TEST(Unshard, ContradictionsNameTheRanks) {
  EXPECT_THAT(TwoOf(Counting({2}), Counting({3})).Error("h"),
              HasSubstr("rank 0 holds [2], rank 1 [3], where the dims say that they hold copies"));
  EXPECT_THAT(TwoOf(Counting({2, 2}), Counting({2, 3})).Error("b[tp] h"),
              HasSubstr("rank 0 holds 2 units of dimension h, rank 1 3"));
  EXPECT_THAT(TwoOf(Counting({2}), Counting({1, 2})).Error("h[tp]"),
              HasSubstr("rank 0 holds [2], rank 1 [1, 2]"));
  EXPECT_THAT(TwoOf(Counting({1}), MakeSource<float>("float32", {1}, {0})).Error("h[tp]"),
              HasSubstr("rank 0 holds int32, rank 1 float32"));
  EXPECT_THAT(TwoOf(Counting({2}), Counting({2})).Error("b h[tp]"),
              HasSubstr("name 2 dimensions, the tensor has 1"));
  Job twice("tp=2", 2);
  twice.Add(0, Counting({2})).Add(0, Counting({2}));
  EXPECT_EQ(twice.Error("h[tp]"), "rank 0 holds it twice");
  Job outside("tp=2", 2);
  outside.Add(5, Counting({2}));
  EXPECT_EQ(outside.Error("h"), "the place of rank 5 in the job is not known");
  EXPECT_EQ(Job("tp=2", 2).Error("h"), "no rank holds it");
}

// Two stages that both call a layer "layers.0" do not hold copies of it.
TEST(Unshard, StagesOfAPipelineAreNoReplicas) {
  Job job("tp=1 pp=2", 2);
  job.Add(0, Counting({2})).Add(1, Counting({2}));
  EXPECT_THAT(job.Error("h"), HasSubstr("stages 0, 1 of the pipeline all hold this name"));
  EXPECT_EQ(job.Plan("h replicated[pp]")->how, "replicated on 2 ranks");
  Job last("tp=2 pp=2", 4);
  last.Add(2, Ints({1}, {1})).Add(3, Ints({1}, {2}));
  EXPECT_THAT(last.Whole("h[tp]"), ElementsAre(1, 2));  // the last stage only
}

TEST(Unshard, AxesThatTheRunDoesNotHave) {
  Job job = TwoOf(Counting({2}), Counting({2}));
  EXPECT_THAT(job.Error("h[pt]"), HasSubstr("axis 'pt'; the run has tp=2"));
  EXPECT_EQ(job.Plan("h[cp:zigzag]")->how, "replicated on 2 ranks");  // one place on cp
  EXPECT_EQ(job.Plan("s[sp]")->how, "concatenated on sp");            // the axis tp
  EXPECT_THAT(job.Error("s[sp] h[tp]"), HasSubstr("dims"));           // two dimensions, one given
  EXPECT_THAT(TwoOf(Counting({2, 2}), Counting({2, 2})).Error("s[sp] h[tp]"),
              HasSubstr("twice, as 'sp' and 'tp'"));
  Job alone(Topology::Unknown(1));
  alone.Add(0, Counting({2}));
  EXPECT_TRUE(alone.Plan("h[whatever]")->is_one_shard);
}

TEST(Unshard, OfAnUnknownTopologyTheOneAxisOfTheDimsIsAllRanks) {
  Job job(Topology::Unknown(2));
  job.Add(0, Ints({1}, {1})).Add(1, Ints({1}, {2}));
  EXPECT_THAT(job.Whole("h[tp]"), ElementsAre(1, 2));
  EXPECT_THAT(job.Error("h[tp] partial[dp]"), HasSubstr("the run has rank=2"));
}

TEST(ShardsAt, NamesWhoHoldsAnElement) {
  Job job("tp=2 ep=2", 4);
  for (int32_t rank = 0; rank < 4; ++rank) job.Add(rank, Counting({2, 2}));
  const auto plan = job.Plan("b h[tp] partial[ep]");  // [2, 4] of [2, 2]; rank = tp + 2 * ep
  ASSERT_TRUE(plan.ok());
  EXPECT_THAT(ShardsAt(*plan, 5), ElementsAre(0, 2));  // [1, 1]
  EXPECT_THAT(ShardsAt(*plan, 6), ElementsAre(1, 3));  // [1, 2]
}

}  // namespace
}  // namespace tdump::compare
