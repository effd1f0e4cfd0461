#include "compare/uneven_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/compare/skipped_runs.h"

namespace tdump::compare {
namespace {

using testing::HasSubstr;

std::string At(const std::string& axis, int32_t place) {
  return axis + "=" + std::to_string(place);
}

// One step of copies: a module, whose output a rank may lack, and one behind it.
struct Job {
  std::vector<std::string> places = {At("tp", 0), At("tp", 1)};
  std::vector<int32_t> lack_output, lack_weight, lack_step;

  bool Has(const std::vector<int32_t>& lacking, int32_t rank) const {
    return std::ranges::find(lacking, rank) == lacking.end();
  }
  FakeRun Run() const {
    const auto world = static_cast<int32_t>(places.size());
    FakeRun run(world);
    for (int32_t rank = 0; rank < world; ++rank) {
      run.Place(rank, places[static_cast<size_t>(rank)]);
      if (!Has(lack_step, rank)) continue;
      PassBuilder pass = run.Pass(rank, 0);
      if (Has(lack_weight, rank)) pass.Param("b", "weight", kInput);
      pass.Param("c", "weight", kInput);
      const uint64_t call = pass.Begin("b", "", {{"0", kFirstRows}});
      pass.End(call, "b", "",
               Has(lack_output, rank) ? std::vector<PassBuilder::Argument>{{"", kFirstRows}}
                                      : std::vector<PassBuilder::Argument>{});
      pass.Module("c", kFirstRows, kFirstRows);
    }
    return run;
  }
};

DiffOptions Together(const std::string& topology = "") {
  DiffOptions options;
  options.job = JobOptions{.topology_a = topology, .topology_b = topology};
  return options;
}

// As a dump of another tool, which has no rules of its own.
class OfAnotherTool : public CapturedRun {
 public:
  explicit OfAnotherTool(const FakeRun& run) : CapturedRun(run.side()) {}
  SideInfo Describe() const override {
    SideInfo info = CapturedRun::Describe();
    info.is_ours = false;
    return info;
  }
};

DiffReport DiffDumps(const Job& a, const Job& b) {
  const FakeRun run_a = a.Run(), run_b = b.Run();
  auto report = Diff(OfAnotherTool(run_a), OfAnotherTool(run_b), Together());
  EXPECT_TRUE(report.ok()) << report.status().message();
  return report.ok() ? *std::move(report) : DiffReport();
}

std::vector<std::string> Four(const std::string& axis) {
  return {At(axis, 0), At(axis, 1), At(axis, 2), At(axis, 3)};
}

const std::vector<std::string> kPlane = {"tp=0 dp=0", "tp=1 dp=0", "tp=0 dp=1", "tp=1 dp=1"};

TEST(UnevenCopies, WhatTheSameRankOfTheOtherSideHoldsIsMissed) {
  const FakeRun whole = Job{}.Run(), lacking = Job{.lack_output = {1}}.Run();
  const DiffReport report = DiffOk(whole, lacking, Together());
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.failing, 0u);
  EXPECT_EQ(report.counts.unpaired_a, 1u);
  EXPECT_EQ(report.counts.unpaired_b, 0u);
  EXPECT_THAT(Joined(Text(report, 2, 2)),
              HasSubstr("only in A all ranks, step 0: b@output#; rank 1 of B holds no copy, though "
                        "rank 0 does"));
  const DiffReport other = DiffOk(lacking, whole, Together());
  EXPECT_EQ(other.counts.unpaired_b, 1u);
  EXPECT_THAT(Joined(Text(other, 2, 2)),
              HasSubstr("only in B all ranks, step 0: b@output#; rank 1 of A holds no copy"));
  ExpectSame(DiffOk(whole, whole, Together()));
}

TEST(UnevenCopies, ItMayBeAllowed) {
  DiffOptions options = Together();
  options.allow_unpaired = {NameFilter(), Named("b")};
  const DiffReport report = DiffOk(Job{}.Run(), Job{.lack_output = {1}}.Run(), options);
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.unpaired_allowed, 1u);
}

// As what one rank alone returns, say a loss.
TEST(UnevenCopies, WhatTheSameRankOfBothLacksIsNot) {
  const std::vector<std::string> four = Four("tp");
  for (const Job& job :
       {Job{.lack_output = {1}}, Job{.lack_output = {0}, .lack_weight = {1}},
        Job{.places = four, .lack_output = {1, 2, 3}}, Job{.places = four, .lack_output = {2}}}) {
    const FakeRun run = job.Run();
    ExpectSame(DiffOk(run, run, Together()));
    ExpectSame(DiffDumps(job, job));
  }
}

TEST(UnevenCopies, WhereNobodySaysHowRanksLieTheModuleTells) {
  const std::vector<std::string> unknown = {"", "", ""};
  const FakeRun whole = Job{.places = unknown}.Run();
  EXPECT_EQ(
      DiffOk(whole, Job{.places = unknown, .lack_output = {1}}.Run(), Together()).counts.unpaired_a,
      1u);
  // A rank without anything of it may be another stage.
  FakeRun stage(3);
  for (const int32_t rank : {0, 1, 2}) {
    PassBuilder pass = stage.Pass(rank, 0);
    if (rank != 1) pass.Param("b", "weight", kInput);
    pass.Param("c", "weight", kInput);
    if (rank != 1) pass.Module("b", kFirstRows, kFirstRows);
    pass.Module("c", kFirstRows, kFirstRows);
  }
  ExpectSame(DiffOk(whole, stage, Together()));
}

TEST(UnevenCopies, ExpertsComeAndGo) {
  const auto run = [](bool lacks) {
    FakeRun made(2);
    for (const int32_t rank : {0, 1}) {
      made.Place(rank, At("tp", rank));
      PassBuilder pass = made.Pass(rank, 0);
      pass.Module("a", kFirstRows, kFirstRows);
      if (rank == 0 || !lacks) pass.Module("experts.1", kFirstRows, kFirstRows);
    }
    return made;
  };
  ExpectSame(DiffOk(run(false), run(true), Together()));
}

// No rank holds all parameters that another one holds.
TEST(UnevenCopies, ExpertsOfEachRankHideNoLostWeight) {
  const auto run = [](bool lacks) {
    FakeRun made(2);
    for (const int32_t rank : {0, 1}) {
      made.Place(rank, At("dp", rank));
      PassBuilder pass = made.Pass(rank, 0);
      if (rank == 0 || !lacks) pass.Param("norm", "weight", kInput);
      pass.Param("norm", "bias", kInput);
      pass.Param("experts." + std::to_string(rank), "weight", kInput);
      pass.Module("norm", kFirstRows, kFirstRows);
    }
    return made;
  };
  ExpectSame(DiffOk(run(false), run(false), Together()));
  const DiffReport report = DiffOk(run(false), run(true), Together());
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_THAT(Joined(Text(report, 2, 2)), HasSubstr("rank 1 of B holds no copy"));
}

TEST(UnevenCopies, AShardedOptimizerKeepsEachTensorOnOneRank) {
  const auto run = [](bool is_sharded) {
    FakeRun made(2);
    for (const int32_t rank : {0, 1}) {
      made.Place(rank, At("dp", rank));
      PassBuilder pass = made.Pass(rank, 0);
      pass.Module("b", kFirstRows, kFirstRows);
      if (is_sharded && rank == 1) continue;
      pass.Param("b", "weight.exp_avg", kInput);
      pass.last()->key.role = Role::kState;
    }
    return made;
  };
  ExpectSame(DiffOk(run(false), run(true), Together()));
}

TEST(UnevenCopies, ARankThatNeverStartedIsMissed) {
  const FakeRun whole = Job{}.Run();
  Job job;
  job.lack_step = {1};
  FakeRun lost = job.Run();
  lost.index()->ranks[1] = {.rank = 1};
  const DiffReport report = DiffOk(whole, lost, Together("tp=2"));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_THAT(Joined(Text(report, 2, 2)), HasSubstr("rank 1 of B has no step 0"));
  // Places tell against one rank as well.
  DiffOptions options;
  options.job = JobOptions{.topology_b = "tp=2"};
  const FakeRun one = Job{.places = {""}}.Run();
  EXPECT_EQ(DiffOk(one, lost, options).overall, Overall::kDiffers);
  // Both lack it.
  ExpectSame(DiffOk(lost, lost, Together("tp=2")));
}

TEST(UnevenCopies, ARankThatWasNotCapturedIsNotMissed) {
  Job job;
  job.lack_step = {1};
  FakeRun first = job.Run();
  first.index()->ranks[0].selected = true;
  ExpectSame(DiffOk(Job{}.Run(), first, Together("tp=2")));
  ExpectSame(DiffOk(Job{.places = {""}}.Run(), first));
}

TEST(UnevenCopies, OfAnotherToolsDumpPlacesTell) {
  const Job one = {.places = {""}};
  const std::vector<std::string> tp = Four("tp");
  ExpectSame(DiffDumps(one, {.places = tp}));
  const DiffReport report = DiffDumps(one, {.places = tp, .lack_output = {2}});
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.unpaired_a, 1u);
  EXPECT_THAT(Joined(Text(report, 1, 4)),
              HasSubstr("rank 2 of B holds no copy, though ranks 0-1,3 do"));
  EXPECT_EQ(DiffDumps({.places = tp, .lack_output = {2}}, one).counts.unpaired_b, 1u);
  EXPECT_EQ(DiffDumps(one, {.places = kPlane, .lack_weight = {2, 3}}).counts.unpaired_a, 2u);
  // Logits that are gathered, or the bias of a row-parallel layer, are on one rank.
  ExpectSame(DiffDumps(one, {.places = tp, .lack_output = {1, 2, 3}}));
  ExpectSame(DiffDumps(one, {.places = tp, .lack_weight = {1, 2, 3}}));
  ExpectSame(DiffDumps(one, {.places = kPlane, .lack_weight = {1, 3}}));
  // Other data may be why, and nobody says how ranks lie.
  ExpectSame(DiffDumps(one, {.places = Four("dp"), .lack_output = {2}}));
  ExpectSame(DiffDumps(one, {.places = {"", "", "", ""}, .lack_output = {2}}));
}

// Each rank of a sharded optimizer dumps the parameters that it owns.
TEST(UnevenCopies, ParametersThatAreDealtOutAreNotMissed) {
  const auto run = [](int32_t world) {
    FakeRun made(world);
    for (int32_t rank = 0; rank < world; ++rank) {
      if (world > 1) made.Place(rank, At("dp", rank));
      PassBuilder pass = made.Pass(rank, 0);
      if (world == 1 || rank == 0) pass.Param("b", "weight", kInput);
      if (world == 1 || rank == 1) pass.Param("c", "weight", kInput);
      pass.Module("b", kFirstRows, kFirstRows);
      pass.Module("c", kFirstRows, kFirstRows);
    }
    return made;
  };
  const FakeRun one = run(1), two = run(2);
  const auto report = Diff(OfAnotherTool(one), OfAnotherTool(two), Together());
  ASSERT_TRUE(report.ok());
  ExpectSame(*report);
}

// Gradients, or parameters: by rank, which of b and c it holds.
FakeRun Dealt(Role role, const std::vector<std::string>& owned) {
  const auto world = static_cast<int32_t>(owned.size());
  FakeRun run(world);
  for (int32_t rank = 0; rank < world; ++rank) {
    run.Place(rank, At("dp", rank));
    PassBuilder pass = run.Pass(rank, 0);
    for (const char* const name : {"b", "c"}) {
      if (owned[static_cast<size_t>(rank)].find(name) == std::string::npos) continue;
      pass.Param(name, "weight", kInput);
      pass.last()->key.role = role;
    }
    pass.Module("b", kFirstRows, kFirstRows);
    pass.Module("c", kFirstRows, kFirstRows);
  }
  return run;
}

// As ZeRO-2 does gradients, and HSDP parameters among ranks of its own.
TEST(UnevenCopies, WhatIsDealtOutIsNotMissedOfTheSameRank) {
  for (const Role role : {Role::kParamGrad, Role::kParam}) {
    const FakeRun whole = Dealt(role, {"bc", "bc", "bc"});
    for (const FakeRun& dealt : {Dealt(role, {"b", "c", ""}), Dealt(role, {"c", "", "b"})}) {
      ExpectSame(DiffOk(whole, dealt, Together()));
      ExpectSame(DiffOk(dealt, whole, Together()));
      const auto report = Diff(OfAnotherTool(whole), OfAnotherTool(dealt), Together());
      ASSERT_TRUE(report.ok());
      ExpectSame(*report);
    }
    ExpectSame(
        DiffOk(Dealt(role, {"b", "b", "c", "c"}), Dealt(role, {"b", "c", "b", "c"}), Together()));
    // A rank that holds all that the others hold but one lost it.
    EXPECT_EQ(DiffOk(whole, Dealt(role, {"bc", "b", "bc"}), Together()).counts.unpaired_a, 1u);
  }
}

TEST(UnevenCopies, WhatTheCaptureDidNotKeepIsNotMissed) {
  const auto with = [](uint64_t not_kept, bool is_selected) {
    FakeRun b = Job{.lack_output = {1}}.Run();
    b.Count(0, "b", 1);
    b.Count(1, "b", 1, not_kept, is_selected);
    return DiffOk(Job{}.Run(), b, Together());
  };
  EXPECT_EQ(with(0, true).counts.unpaired_a, 1u);
  ExpectSame(with(3, true));   // a limit
  ExpectSame(with(0, false));  // rules of some ranks
}

// Data parallel ranks, of which a batch may take no branch.
TEST(UnevenCopies, ABranchThatARankDidNotTakeIsNotMissed) {
  const auto run = [](const std::vector<int32_t>& takes) {
    FakeRun made(3);
    for (const int32_t rank : {0, 1, 2}) {
      made.Place(rank, At("dp", rank));
      PassBuilder pass = made.Pass(rank, 0);
      pass.Param("branch", "weight", kInput);
      const Tensor given = Matrix(1, 2, {static_cast<float>(rank), 1});
      pass.Module("a", given, kFirstRows);
      if (std::ranges::find(takes, rank) != takes.end()) pass.Module("branch", given, given);
    }
    return made;
  };
  const DiffReport report = DiffOk(run({0, 1}), run({1, 2}), Together());
  EXPECT_EQ(report.counts.unpaired_a + report.counts.unpaired_b, 0u) << Joined(Text(report, 1, 4));
}

// Rules of a capture may be of some ranks: against one rank nothing tells.
TEST(UnevenCopies, OfACapturePlacesDoNotTell) {
  ExpectSame(DiffOk(Job{.places = {""}}.Run(), Job{.places = Four("tp"), .lack_output = {2}}.Run(),
                    Together()));
}

}  // namespace
}  // namespace tdump::compare
