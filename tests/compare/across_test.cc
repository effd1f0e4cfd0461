// Replicas of one run, made by hand: ranks 0 to 3 at (tp 0, dp 0), (tp 1, dp 0), (tp 0, dp 1), ...
#include "compare/across.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "compare/diff.h"
#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

using ::testing::HasSubstr;

Topology TwoByTwo() { return *Topology::Parse("tp=2,dp=2", 4); }

Tensor Values(std::vector<float> values) { return Vector<float>("float32", values); }

// What differs of rank 3, from what its replica, rank 1, has.
struct Fault {
  float weight = 0, output = 0;
};

// `batches`: dp ranks are given other inputs.
void Fill(FakeRun* run, bool batches, const Fault& fault) {
  for (int32_t rank = 0; rank < 4; ++rank) {
    const float dp = static_cast<float>(rank / 2), tp = static_cast<float>(rank % 2);
    const float x = batches ? 1 + dp : 1;
    PassBuilder pass = run->Pass(rank, 0);
    pass.Param("norm", "weight", Values({1, 2 + (rank == 3 ? fault.weight : 0)}));
    pass.Param("linear", "weight", Values({tp, 3}));  // a shard
    pass.last()->dims = "h[tp] k";
    pass.Param("norm", "weight", Values({x, 2 * x}));
    pass.last()->key.role = Role::kParamGrad;  // of a rank's own batch
    const uint64_t root = pass.Begin(".", "", {{"0", Values({x, x})}});
    pass.Module("norm", Values({x, x}), Values({2 * x, x + (rank == 3 ? fault.output : 0)}));
    pass.End(root, ".", "", {{"", Values({2 * x, x})}});
  }
}

DiffReport Across(const FakeRun& run, std::string_view axis, const Topology& topology = TwoByTwo(),
                  DiffOptions options = {}) {
  const CapturedRun whole = run.side();
  const auto replicas = Replicas::Along(axis, topology);
  EXPECT_TRUE(replicas.ok());
  const ReplicaSide first(whole, *replicas, true), others(whole, *replicas, false);
  options.across = axis;
  const auto report = Diff(first, others, options);
  EXPECT_TRUE(report.ok()) << report.status().message();
  return report.ok() ? *report : DiffReport();
}

TEST(Across, TheFirstOfEachGroup) {
  const auto dp = Replicas::Along("dp", TwoByTwo());
  ASSERT_TRUE(dp.ok());
  EXPECT_EQ(dp->FirstOf(0), 0);
  EXPECT_EQ(dp->FirstOf(1), 1);
  EXPECT_EQ(dp->FirstOf(2), 0);
  EXPECT_EQ(dp->FirstOf(3), 1);
  EXPECT_EQ(dp->FirstOf(4), std::nullopt);
  EXPECT_EQ(Replicas::Along("tp", TwoByTwo())->FirstOf(3), 2);
}

TEST(Across, WhatCannotBeReplicasSaysWhy) {
  const auto why = [](std::string_view axis, const Topology& topology) {
    return Replicas::Along(axis, topology).status().message();
  };
  EXPECT_THAT(why("dp", Topology::Unknown(4)), HasSubstr("does not say where its 4 ranks lie"));
  EXPECT_THAT(why("dp", *Topology::OfRanks({"", ""})), HasSubstr("does not say"));
  // Sizes that make as many ranks as there are.
  using testing::EndsWith;
  EXPECT_THAT(why("dp", Topology::Unknown(4)), EndsWith("--topology dp=4, or tp=2,dp=2"));
  EXPECT_THAT(why("cp", Topology::Unknown(8)), EndsWith("--topology cp=8, or tp=4,cp=2"));
  EXPECT_THAT(why("tp", Topology::Unknown(6)), EndsWith("--topology tp=6, or tp=2,dp=3"));
  EXPECT_THAT(why("dp", Topology::Unknown(3)), EndsWith("fastest first: --topology dp=3"));
  EXPECT_THAT(why("dp", Topology::Unknown(1)), HasSubstr("the run has one rank only"));
  EXPECT_THAT(why("ep", TwoByTwo()), HasSubstr("no such axis; it has tp, dp"));
  EXPECT_THAT(why("pp", *Topology::Parse("pp=4", 4)), HasSubstr("different layers"));
  EXPECT_THAT(why("cp", *Topology::Parse("dp=4,cp=1", 4)), HasSubstr("one rank only"));
}

TEST(Across, RanksThatWereGivenOtherInputsShareTheModelOnly) {
  FakeRun run(4);
  Fill(&run, true, {});
  const DiffReport report = Across(run, "dp");
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.paired, 2u * 2);  // two weights of two ranks
  EXPECT_EQ(report.counts.unpaired_a + report.counts.unpaired_b, 0u);
}

TEST(Across, AWeightThatDriftedIsNamedWithItsRank) {
  FakeRun run(4);
  Fill(&run, true, {.weight = 0.5f});
  const DiffReport report = Across(run, "dp");
  EXPECT_EQ(report.overall, Overall::kDiffers);
  ASSERT_EQ(report.parameters.differing.size(), 1u);
  EXPECT_EQ(report.parameters.differing[0].name, "norm.weight");
  EXPECT_EQ(report.parameters.differing[0].rank, 3);
}

// All of it was recorded: it is left out, since each rank has its own part of the batch.
TEST(Across, WhatIsNotComparedIsNotSaidToBeMissing) {
  FakeRun run(2);
  for (int32_t rank = 0; rank < 2; ++rank) {
    const float x = static_cast<float>(rank + 1);
    PassBuilder pass = run.Pass(rank, 0);
    const uint64_t root = pass.Begin(".", "", {{"0", Values({x, x})}});
    pass.End(root, ".", "", {{"", Values({x, x})}});
    const uint64_t call = pass.Begin("fc", "", {});
    pass.End(call, "fc", "", {{"weight", Values({x, 2 * x})}});
    pass.last()->key.role = Role::kParamGrad;
    const Tensor kept = Values({0.5f * x, x});
    pass.Param("fc", "weight.exp_avg", kept);
    pass.last()->key.role = Role::kState;
    pass.last()->payload = kept.record.payload;
  }
  const DiffReport report = Across(run, "dp", *Topology::Parse("dp=2", 2));
  EXPECT_EQ(report.counts.failing, 1u);
  const std::string text = Joined(Text(report, 2, 2));
  EXPECT_THAT(text,
              HasSubstr("inputs of the model: not compared along dp: each rank has others, "));
  EXPECT_THAT(text,
              HasSubstr("its gradient is not compared along dp: the ranks were given other "));
  EXPECT_THAT(text, testing::Not(HasSubstr("capture role param_grad")));
}

// Copies that are given the same data, and differ in what a loss beside the model is given of it.
TEST(Across, WhatALossIsGivenOfTheModelMakesNoOtherInputs) {
  FakeRun run(2);
  for (int32_t rank = 0; rank < 2; ++rank) {
    const Tensor in = Values({1, 2}), out = rank == 0 ? Values({3, 4}) : Values({3, 5});
    PassBuilder pass = run.Pass(rank, 0);
    pass.Module(".", in, out);
    const uint64_t loss = pass.Begin(".", "", {{"0", out}});
    pass.last()->key.root = "CrossEntropyLoss";
    pass.End(loss, ".", "", {});
    pass.last_call()->root = "CrossEntropyLoss";
  }
  const DiffReport report = Across(run, "tp", *Topology::Parse("tp=2", 2));
  EXPECT_EQ(report.counts.paired, 3u);
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->name, ".");
  EXPECT_EQ(report.origin->kind, OriginKind::kOperator);
}

// Weights at step 0 alone, as they are captured by default, and at the others what the ranks do not
// share.
FakeRun WeightsAtTheFirstStep(uint64_t steps) {
  FakeRun run(2);
  for (int32_t rank = 0; rank < 2; ++rank) {
    for (uint64_t step = 0; step < steps; ++step) {
      const float x = static_cast<float>(rank + 1);
      PassBuilder pass = run.Pass(rank, step);
      if (step == 0) pass.Param("fc", "weight", Values({1, 2}));
      const uint64_t root = pass.Begin(".", "", {{"0", Values({x, x})}});
      pass.End(root, ".", "", {{"", Values({x, x})}});
    }
  }
  return run;
}

TEST(Across, StepsWithoutWeightsAreSaidNotToBeJudged) {
  const Topology dp = *Topology::Parse("dp=2", 2);
  const DiffReport report = Across(WeightsAtTheFirstStep(4), "dp", dp);
  EXPECT_EQ(report.overall, Overall::kSame);
  const std::string why =
      "only step 0 has records that are compared along dp; to see drift capture weights at every "
      "step: {role: [param], level: hash}";
  const std::string text = Joined(Text(report, 2, 2));
  EXPECT_THAT(text, HasSubstr("SAME 1 of 1 bit for bit; nothing judged in steps 1-3 "));
  EXPECT_THAT(text, HasSubstr("judged step 0 alone steps 1-3: nothing judged: " + why));
  const auto json = nlohmann::json::parse(RenderJson(report, {}, {}, false));
  EXPECT_EQ(json["steps_not_judged"],
            nlohmann::json::array({{{"steps", {1, 2, 3}}, {"why", why}}}));
  // All of them were.
  const DiffReport one = Across(WeightsAtTheFirstStep(1), "dp", dp);
  EXPECT_TRUE(one.steps_not_judged.empty());
  EXPECT_THAT(Joined(Text(one, 2, 2)), testing::Not(HasSubstr("judged")));
}

TEST(Across, WhereNothingIsComparedItIsSaidWhatIs) {
  DiffOptions options;
  options.pairing.steps = *Spec::Parse("1-3");
  const DiffReport report =
      Across(WeightsAtTheFirstStep(4), "dp", *Topology::Parse("dp=2", 2), options);
  EXPECT_EQ(report.overall, Overall::kNotComparable);
  EXPECT_EQ(report.why_not,
            "the paired steps hold no record that is compared along dp: of ranks that were given "
            "other inputs only parameters and buffers that it does not split are; capture them at "
            "every step: {role: [param], level: hash}");
  // Of two runs, and of names that were asked for.
  FakeRun empty(1);
  empty.Pass(0, 0);
  EXPECT_THAT(DiffOk(empty, empty).why_not,
              testing::EndsWith("hold no record on either side: see tdump-view --coverage"));
  DiffOptions selected;
  selected.pass.select = Named("fc");
  EXPECT_THAT(DiffOk(empty, empty, selected).why_not, HasSubstr("is --select right?"));
}

// The run says where its ranks lie: replicas lie otherwise, and are compared one by one all the
// same.
TEST(Across, RanksWhoseRunSaysWhereTheyLieAreNotPutTogether) {
  FakeRun run(2);
  for (int32_t rank = 0; rank < 2; ++rank) {
    run.Place(rank, rank == 0 ? "dp=0" : "dp=1");
    PassBuilder pass = run.Pass(rank, 0);
    pass.Param("fc", "weight", Values({1, 2}));
    if (rank == 0) pass.Param("fc", "bias", Values({1, 2}));
  }
  run.MakePart(1);
  const DiffReport report = Across(run, "dp", *Topology::OfRanks({"dp=0", "dp=1"}));
  EXPECT_FALSE(report.job.has_value());
  EXPECT_TRUE(report.notes.empty());
  EXPECT_THAT(report.ranks, testing::ElementsAre(testing::Pair(0, 1)));
  const std::string text = Text(report, 2, 2);
  EXPECT_THAT(text, HasSubstr("A a@0   rank 0 of 2 "));
  EXPECT_THAT(text, HasSubstr("B b@0   rank 1 of 2 "));
  EXPECT_THAT(Joined(text), HasSubstr("only in A rank 0 against 1, step 0: fc@param#bias; the pass "
                                      "of rank 1 is unfinished"));
  ASSERT_EQ(report.unpaired.size(), 1u);
  const auto json = nlohmann::json::parse(UnpairedToJson(report.unpaired[0]));
  EXPECT_EQ(json["rank"], 0);
  EXPECT_EQ(json["against"], 1);
}

TEST(Across, EqualInputsAskForEqualOutputs) {
  FakeRun run(4);
  Fill(&run, false, {.output = 1});
  const DiffReport report = Across(run, "dp");
  EXPECT_EQ(report.overall, Overall::kDiffers);
  ASSERT_TRUE(report.origin.has_value());
  EXPECT_EQ(report.origin->rank, 3);
  EXPECT_EQ(report.origin->rank_a, 1);
  EXPECT_EQ(report.origin->row->rank_a, 1);
  EXPECT_EQ(report.origin->name, "norm");
  EXPECT_THAT(report.ranks, testing::ElementsAre(testing::Pair(0, 2), testing::Pair(1, 3)));
  EXPECT_EQ(report.counts.paired, 2u * (2 + 1 + 4));
}

// Copies whose hashes agree are not read: nobody notices that none of these can be.
TEST(Across, CopiesAreComparedByTheirHashesFirst) {
  const auto run = [](float last) {
    auto made = std::make_unique<FakeRun>(4);
    for (int32_t rank = 0; rank < 4; ++rank) {
      PassBuilder pass = made->Pass(rank, 0);
      const uint64_t root = pass.Begin(".", "", {{"0", Values({1, 2})}});
      pass.Module("norm", Values({1, 2}), Values({3, rank == 3 ? last : 4}));
      pass.End(root, ".", "", {{"", Values({5, 6})}});
      for (const uint64_t record : {1, 2, 3, 4}) pass.Damage(record);
    }
    return made;
  };
  const DiffReport same = Across(*run(4), "dp");
  EXPECT_EQ(same.overall, Overall::kSame);
  EXPECT_EQ(same.counts.paired, 2u * 4);
  EXPECT_EQ(same.counts.equal_by_hash, same.counts.paired);
  EXPECT_EQ(same.counts.read, 0u);
  EXPECT_TRUE(same.damage.empty());
  // One that differs is read.
  const DiffReport differs = Across(*run(8), "dp");
  EXPECT_EQ(differs.overall, Overall::kDamaged);
  EXPECT_EQ(differs.counts.equal_by_hash, differs.counts.paired - 1);
}

TEST(Across, ShardsOfTheAxisAreNoCopies) {
  FakeRun run(4);
  Fill(&run, false, {});
  const DiffReport report = Across(run, "tp");
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.paired, 2u * (1 + 1 + 4));  // without linear.weight
}

TEST(Across, WhatRanksHoldOfAMeanIsNoCopy) {
  FakeRun run(4);
  for (int32_t rank = 0; rank < 4; ++rank) {
    PassBuilder pass = run.Pass(rank, 0);
    pass.Param("norm", "weight", Values({1, 2}));
    pass.Param("norm", "average", Values({static_cast<float>(rank / 2), 3}));
    pass.last()->dims = "h partial[dp:mean]";
  }
  EXPECT_EQ(Across(run, "dp").counts.paired, 2u);
  EXPECT_EQ(Across(run, "dp").counts.bits_equal, 2u);
  EXPECT_EQ(Across(run, "tp").counts.bits_equal, 4u);
}

}  // namespace
}  // namespace tdump::compare
