#include "compare/skipped_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compare/across.h"
#include "compare/pass_diff_archive.h"
#include "tests/compare/skipped_runs.h"

namespace tdump::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Ranks that run the modules a, b and c at steps 0 and 1; rank 1 skips b at step 1.
struct Job {
  std::vector<std::string> places = {"tp=0", "tp=1", "tp=2"};
  bool batches = false;  // each of two ranks has half of the rows
  bool skips = true;
  std::string name = "b";
  float factor_a = 1, factor_c = 1;  // of what rank 0's a and c return at step 1

  static Tensor Times(const Tensor& rows, float factor) {
    if (factor == 1) return rows;
    return Matrix(2, 2, {factor, 2 * factor, 3 * factor, 4 * factor});
  }
  FakeRun Whole() const {
    FakeRun run(1);
    const Tensor& in = batches ? kBatch : kFirstRows;
    for (const uint64_t step : {0, 1}) RunThree(run.Pass(0, step), name, in, in, in, false);
    return run;
  }
  FakeRun Of() const {
    const auto world = static_cast<int32_t>(places.size());
    FakeRun run(world);
    for (int32_t rank = 0; rank < world; ++rank) {
      run.Place(rank, places[static_cast<size_t>(rank)]);
      const Tensor& in = batches && rank == 1 ? kLastRows : kFirstRows;
      for (const uint64_t step : {0, 1}) {
        const bool first = rank == 0 && step == 1;
        RunThree(run.Pass(rank, step), name, in, Times(in, first ? factor_a : 1),
                 Times(in, first ? factor_c : 1), skips && rank == 1 && step == 1);
      }
    }
    return run;
  }
  DiffReport Diff(const DiffOptions& options = {}) const { return DiffOk(Whole(), Of(), options); }
};

DiffOptions Allowing(const std::string& name) {
  DiffOptions options;
  options.allow_unpaired = {NameFilter(), Named(name)};
  return options;
}

TEST(SkippedRanks, WhatOneOfManyCopiesLacksIsNamed) {
  const DiffReport report = Job{}.Diff();
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.failing, 0u);
  EXPECT_EQ(report.counts.unpaired_a, 2u);  // an input and an output
  EXPECT_EQ(report.counts.paired, 12u);     // the other ranks' too
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->kind, OriginKind::kMissing);
  EXPECT_EQ(report.origin->step, 1u);
  EXPECT_EQ(report.origin->rank, 1);
  EXPECT_EQ(report.origin->name, "b");
  const std::string text = Joined(Text(report, 1, 3));
  EXPECT_THAT(text, HasSubstr("ORIGIN rank 1, step 1, b, not run rank 1 of B has no record of b in "
                              "step 1, though ranks 0,2 have"));
  EXPECT_THAT(text, HasSubstr("only in A all ranks, step 1: b@input#0 and 1 more; rank 1 of B has "
                              "no record of b in step 1, though ranks 0,2 have"));
  const auto json = nlohmann::json::parse(RenderJson(report, {}, {}, false));
  EXPECT_EQ(json["origin"]["skipped"]["ranks"], nlohmann::json::array({1}));
  EXPECT_EQ(json["origin"]["skipped"]["others"], nlohmann::json::array({0, 2}));
  ExpectSame(Job{.skips = false}.Diff());
}

TEST(SkippedRanks, EitherSideMayLackIt) {
  const Job job;
  const DiffReport report = DiffOk(job.Of(), job.Whole());
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.unpaired_b, 2u);
  EXPECT_THAT(Joined(Text(report, 3, 1)), HasSubstr("rank 1 of A has no record of b in step 1"));
}

TEST(SkippedRanks, APartOfTheBatchThatIsMissingIsNoOtherShape) {
  for (const char* const axis : {"dp", "cp", "tp"}) {
    const Job job{.places = {axis + std::string("=0"), axis + std::string("=1")}, .batches = true};
    const DiffReport report = job.Diff();
    EXPECT_EQ(report.overall, Overall::kDiffers);
    EXPECT_EQ(report.counts.failing, 0u);
    EXPECT_EQ(report.counts.shape, 0u);
    EXPECT_EQ(report.counts.paired, 10u);
    EXPECT_EQ(report.counts.unpaired_a, 2u);
    ASSERT_TRUE(report.origin);
    EXPECT_EQ(report.origin->name, "b");
    EXPECT_EQ(report.origin->rank, 1);
    EXPECT_THAT(Text(report, 1, 2), Not(HasSubstr("--align")));
    EXPECT_EQ(job.Diff(Allowing("b")).overall, Overall::kSame);
  }
}

TEST(SkippedRanks, NothingIsLearntOfTheLayoutWhereARankLacksIt) {
  // At step 0 already: at step 1 the two halves are put together.
  Job job{.places = {"dp=0", "dp=1"}, .batches = true, .skips = false};
  FakeRun b(2);
  for (const int32_t rank : {0, 1}) {
    b.Place(rank, job.places[static_cast<size_t>(rank)]);
    const Tensor& in = rank == 1 ? kLastRows : kFirstRows;
    for (const uint64_t step : {0, 1})
      RunThree(b.Pass(rank, step), "b", in, in, in, rank == 1 && step == 0);
  }
  const DiffReport report = DiffOk(job.Whole(), b);
  EXPECT_EQ(report.counts.failing, 0u);
  EXPECT_EQ(report.counts.unpaired_a, 2u);
}

TEST(SkippedRanks, ItMayBeAllowed) {
  const DiffReport report = Job{}.Diff(Allowing("b"));
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.unpaired_allowed, 2u);
  EXPECT_FALSE(report.origin);
  EXPECT_EQ(Job{}.Diff(Allowing("c")).overall, Overall::kDiffers);
}

TEST(SkippedRanks, WhatDiffersBeforeIsTheOrigin) {
  const DiffReport before = Job{.factor_a = 2}.Diff();
  ASSERT_TRUE(before.origin);
  EXPECT_EQ(before.origin->name, "a");
  EXPECT_EQ(before.counts.unpaired_a, 2u);
  const DiffReport after = Job{.factor_c = 2}.Diff();
  ASSERT_TRUE(after.origin);
  EXPECT_EQ(after.origin->name, "b");
  EXPECT_GT(after.counts.failing, 0u);
}

TEST(SkippedRanks, StagesAndRanksOfExpertsRunOtherModules) {
  for (const char* const axis : {"pp", "ep", "stage"}) {
    const std::string name = axis;
    ExpectSame(Job{.places = {name + "=0", name + "=1"}}.Diff());
  }
  // Of one stage all ranks run the same.
  const std::vector<std::string> places = {"tp=0 pp=0", "tp=1 pp=0", "tp=0 pp=1", "tp=1 pp=1"};
  EXPECT_EQ(Job{.places = places}.Diff().overall, Overall::kDiffers);
  ExpectSame(Job{.name = "mlp.experts.1.up"}.Diff());
}

TEST(SkippedRanks, WhereNobodySaysHowRanksLieThoseThatRanItBeforeAreMissed) {
  const Job job{.places = {"", "", ""}};
  ExpectSame(job.Diff());
  const auto with_calls = [&](uint64_t calls) {
    FakeRun b = job.Of();
    for (const int32_t rank : {0, 1, 2}) b.Count(rank, "b", rank == 1 ? calls : 2);
    return DiffOk(job.Whole(), b);
  };
  ExpectSame(with_calls(0));  // it may be another stage
  EXPECT_EQ(with_calls(1).counts.unpaired_a, 2u);
}

TEST(SkippedRanks, WhatTheCaptureDidNotKeepWasRun) {
  const Job job;
  const auto with = [&](const char* module, uint64_t calls, uint64_t not_kept,
                        bool is_selected = true) {
    FakeRun b = job.Of();
    for (const int32_t rank : {0, 2}) b.Count(rank, "b", 2);
    b.Count(1, module, calls, not_kept, is_selected);
    return DiffOk(job.Whole(), b);
  };
  EXPECT_EQ(with("b", 1, 0).overall, Overall::kDiffers);
  EXPECT_EQ(with("b", 0, 0).overall, Overall::kDiffers);
  EXPECT_EQ(with("b", 2, 0).overall, Overall::kDiffers);  // at another time, as rank 0 that
  EXPECT_EQ(with("b", 9, 0).overall, Overall::kDiffers);  // evaluates; else the call is there
  ExpectSame(with("b", 1, 3));                            // a limit
  ExpectSame(with("a", 2, 0));                            // rules of some ranks
  ExpectSame(with("a", 2, 0, /*is_selected=*/false));     // that select nothing on this one
}

TEST(SkippedRanks, ACallWithoutRecordsWasRun) {
  const auto job = [](bool is_called) {
    FakeRun run(2);
    for (const int32_t rank : {0, 1}) {
      run.Place(rank, "tp=" + std::to_string(rank));
      PassBuilder pass = run.Pass(rank, 0);
      RunThree(pass, "b", kFirstRows, kFirstRows, kFirstRows, rank == 1);
      if (rank == 1 && is_called) pass.End(pass.Begin("b", "", {}), "b", "", {});
    }
    return run;
  };
  FakeRun a(1);
  RunThree(a.Pass(0, 0), "b", kFirstRows, kFirstRows, kFirstRows, false);
  ExpectSame(DiffOk(a, job(true)));
  EXPECT_EQ(DiffOk(a, job(false)).overall, Overall::kDiffers);
}

TEST(SkippedRanks, AnUnfinishedStepTellsNothing) {
  Job job;
  FakeRun b = job.Of();
  b.MakePart(1);
  // What it held at a step before is lost (compare/lost_copies.h), not skipped.
  const DiffReport report = DiffOk(job.Whole(), b);
  EXPECT_FALSE(report.origin);
  EXPECT_THAT(Joined(Text(report, 1, 3)), Not(HasSubstr("no record of b")));
}

TEST(SkippedRanks, WhatOneRankAloneDoesOnBothSidesIsNoFault) {
  const auto job = [](int32_t world) {
    FakeRun run(world);
    for (int32_t rank = 0; rank < world; ++rank) {
      run.Place(rank, "tp=" + std::to_string(rank));
      RunThree(run.Pass(rank, 0), "log", kFirstRows, kFirstRows, kFirstRows, rank > 0);
    }
    return run;
  };
  ExpectSame(DiffOk(job(2), job(4)));
}

// A step of the modules a, b and c; a rank skips what its text names, which it ran before.
FakeRun SkippingJob(const std::string& axis, const std::vector<std::string>& skips) {
  const auto world = static_cast<int32_t>(skips.size());
  FakeRun run(world);
  for (int32_t rank = 0; rank < world; ++rank) {
    if (!axis.empty()) run.Place(rank, axis + "=" + std::to_string(rank));
    PassBuilder pass = run.Pass(rank, 0);
    for (const char* const name : {"a", "b", "c"}) {
      const bool is_skipped = skips[static_cast<size_t>(rank)] == name;
      if (!is_skipped) pass.Module(name, kFirstRows, kFirstRows);
      run.Count(rank, name, is_skipped ? 1 : 2);
    }
  }
  return run;
}

TEST(SkippedRanks, EachSideIsToldOfItself) {
  const DiffReport report =
      DiffOk(SkippingJob("tp", {"", "b", ""}), SkippingJob("tp", {"", "", "b", ""}));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.failing, 0u);
  EXPECT_EQ(report.counts.paired, 6u);
  EXPECT_EQ(report.counts.unpaired_a, 2u);
  EXPECT_EQ(report.counts.unpaired_b, 2u);
  EXPECT_TRUE(report.origin);
  const std::string text = Joined(Text(report, 3, 4));
  EXPECT_THAT(text, HasSubstr("rank 1 of A has no record of b in step 0, though ranks 0,2 have"));
  EXPECT_THAT(text, HasSubstr("rank 2 of B has no record of b in step 0, though ranks 0-1,3 have"));
}

TEST(SkippedRanks, EachSideMaySkipAnotherModule) {
  const DiffReport report =
      DiffOk(SkippingJob("tp", {"", "b", ""}), SkippingJob("tp", {"", "", "c", ""}));
  EXPECT_EQ(report.counts.unpaired_a, 2u);
  EXPECT_EQ(report.counts.unpaired_b, 2u);
  const std::string text = Joined(Text(report, 3, 4));
  EXPECT_THAT(text, HasSubstr("rank 1 of A has no record of b in step 0, though ranks 0,2 have"));
  EXPECT_THAT(text, HasSubstr("rank 2 of B has no record of c in step 0, though ranks 0-1,3 have"));
}

TEST(SkippedRanks, TheRanksThatRanModulesAreListedOnce) {
  constexpr int32_t kWorld = 16;
  FakeRun a(1), b(kWorld);
  const auto fill = [](PassBuilder pass, bool is_short) {
    for (int i = 0; i < 20; ++i)
      if (!is_short || i == 0) pass.Module("m" + std::to_string(i), kFirstRows, kFirstRows);
  };
  fill(a.Pass(0, 0), false);
  for (int32_t rank = 0; rank < kWorld; ++rank) {
    b.Place(rank, "tp=" + std::to_string(rank));
    fill(b.Pass(rank, 0), rank % 2 == 1);
  }
  DiffOptions options;
  options.on_pass = [](const PassDiff& pass, const PassPair&) {
    EXPECT_EQ(pass.lost_b.size(), 8u * 19 * 2);
    EXPECT_THAT(pass.rank_lists, ElementsAre(ElementsAre(0, 2, 4, 6, 8, 10, 12, 14)));
    const auto sent = UnarchivePassDiff(ArchivePassDiff(pass, nullptr), nullptr);
    ASSERT_TRUE(sent.ok());
    EXPECT_EQ(sent->rank_lists, pass.rank_lists);
    EXPECT_EQ(sent->lost_b.size(), pass.lost_b.size());
  };
  EXPECT_EQ(DiffOk(a, b, options).counts.unpaired_a, 8u * 19 * 2);
}

TEST(SkippedRanks, WhereNobodySaysHowRanksLieEachSideIsToldOfItselfToo) {
  const DiffReport report =
      DiffOk(SkippingJob("", {"", "b", ""}), SkippingJob("", {"", "", "b", ""}));
  EXPECT_EQ(report.counts.unpaired_a, 2u);
  EXPECT_EQ(report.counts.unpaired_b, 2u);
}

RanksOfModule Ran(std::vector<int32_t> ran, int32_t world) {
  RanksOfModule ranks{.ran = std::move(ran), .skipped = {}};
  for (int32_t rank = 0; rank < world; ++rank) {
    if (std::find(ranks.ran.begin(), ranks.ran.end(), rank) == ranks.ran.end())
      ranks.skipped.push_back(rank);
  }
  return ranks;
}

struct Places {
  const char* topology;  // "": not known
  int32_t world;
  std::vector<int32_t> ran;
};

bool AreAlike(const Places& a, const Places& b) {
  const auto topology = [](const Places& of) {
    return *of.topology == '\0' ? Topology::Unknown(of.world)
                                : *Topology::Parse(of.topology, of.world);
  };
  const bool alike = SkipAlike(topology(a), Ran(a.ran, a.world), topology(b), Ran(b.ran, b.world));
  EXPECT_EQ(alike, SkipAlike(topology(b), Ran(b.ran, b.world), topology(a), Ran(a.ran, a.world)));
  return alike;
}

TEST(SkippedRanks, RanksOfTheSamePlacesAreAlike) {
  EXPECT_TRUE(AreAlike({"tp=2", 2, {0}}, {"tp=4", 4, {0}}));                  // the first rank
  EXPECT_TRUE(AreAlike({"tp=2", 2, {1}}, {"tp=4", 4, {3}}));                  // the last
  EXPECT_TRUE(AreAlike({"tp=2", 2, {1}}, {"tp=4", 4, {1, 2, 3}}));            // all but the first
  EXPECT_TRUE(AreAlike({"tp=2", 2, {0}}, {"tp=4 dp=2", 8, {0}}));             // the first of all
  EXPECT_TRUE(AreAlike({"tp=2", 2, {0}}, {"tp=4 dp=2", 8, {0, 4}}));          // of each replica
  EXPECT_TRUE(AreAlike({"tp=2", 2, {0}}, {"dp=4", 4, {0}}));                  // of any axis
  EXPECT_TRUE(AreAlike({"tp=2 pp=2", 4, {2}}, {"tp=4", 4, {0}}));             // of a stage
  EXPECT_TRUE(AreAlike({"", 4, {0, 2, 3}}, {"", 8, {0, 2, 3, 4, 5, 6, 7}}));  // one number
}

TEST(SkippedRanks, RanksOfOtherPlacesAreNotAlike) {
  EXPECT_FALSE(AreAlike({"", 4, {0, 1, 3}}, {"", 4, {0, 2, 3}}));
  EXPECT_FALSE(AreAlike({"tp=2", 2, {0}}, {"tp=4", 4, {0, 1, 3}}));
  EXPECT_FALSE(AreAlike({"tp=2", 2, {0}}, {"tp=4", 4, {1}}));
  EXPECT_FALSE(AreAlike({"tp=2", 2, {0}}, {"dp=4", 4, {0, 1, 3}}));
  EXPECT_FALSE(AreAlike({"tp=2", 2, {0}}, {"", 4, {0, 1, 3}}));
  EXPECT_FALSE(AreAlike({"tp=2", 2, {0}}, {"tp=4 dp=2", 8, {0, 5}}));  // another of each replica
  EXPECT_FALSE(AreAlike({"tp=2 dp=2", 4, {0, 1, 3}}, {"tp=4 dp=2", 8, {0, 1, 2, 3, 4, 5, 6}}));
}

TEST(SkippedRanks, OperatorsThatAreNoModulesComeAndGo) {
  FakeRun a(1), b(2);
  a.Pass(0, 0).Module("a", kInput, kInput).Tap("a", "loss", kInput);
  b.Place(0, "tp=0");
  b.Place(1, "tp=1");
  b.Pass(0, 0).Module("a", kInput, kInput).Tap("a", "loss", kInput);
  b.Pass(1, 0).Module("a", kInput, kInput);
  ExpectSame(DiffOk(a, b));
}

// Replicas that were given other batches.
TEST(SkippedRanks, AlongAnAxisOfBatchesTheModulesAreCompared) {
  const auto across = [](bool skips, const std::string& name, const DiffOptions& given = {}) {
    FakeRun run(2);
    for (const int32_t rank : {0, 1}) {
      PassBuilder pass = run.Pass(rank, 0);
      const Tensor& in = rank == 1 ? kLastRows : kFirstRows;
      pass.Param("a", "weight", kInput);
      const uint64_t root = pass.Begin(".", "", {{"0", in}});
      RunThree(pass, name, in, in, in, skips && rank == 1);
      pass.End(root, ".", "", {{"", in}});
    }
    const CapturedRun whole = run.side();
    const auto replicas = Replicas::Along("dp", *Topology::Parse("dp=2", 2));
    EXPECT_TRUE(replicas.ok());
    DiffOptions options = given;
    options.across = "dp";
    const auto report = compare::Diff(ReplicaSide(whole, *replicas, true),
                                      ReplicaSide(whole, *replicas, false), options);
    EXPECT_TRUE(report.ok());
    return report.ok() ? *report : DiffReport();
  };
  const DiffReport report = across(true, "b");
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.paired, 1u);
  EXPECT_EQ(report.counts.unpaired_a, 2u);
  EXPECT_THAT(Joined(Text(report, 2, 2)),
              HasSubstr("only in A rank 0 against 1, step 0: b@input#0"));
  ExpectSame(across(false, "b"));
  ExpectSame(across(true, "experts.3"));
  EXPECT_EQ(across(true, "b", Allowing("b")).overall, Overall::kSame);
}

TEST(SkippedRanks, AlongAnAxisOfTheSameDataMicroBatchesAreComparedToo) {
  FakeRun run(2);
  for (const int32_t rank : {0, 1}) {
    PassBuilder pass = run.Pass(rank, 0);
    pass.Param("a", "weight", kInput);
    for (const uint32_t micro : {0u, 1u}) {
      if (rank == 1 && micro == 1) continue;
      pass.Module("a", kFirstRows, kFirstRows);
      pass.last_call()->call.micro = micro;
      for (auto record = pass.records()->end() - 2; record != pass.records()->end(); ++record)
        record->key.micro = micro;
    }
  }
  const CapturedRun whole = run.side();
  const auto across = [&](const std::string& axis) {
    const auto replicas = Replicas::Along(axis, *Topology::Parse(axis + "=2", 2));
    DiffOptions options;
    options.across = axis;
    return *compare::Diff(ReplicaSide(whole, *replicas, true), ReplicaSide(whole, *replicas, false),
                          options);
  };
  EXPECT_EQ(across("tp").counts.unpaired_a, 2u);
  ExpectSame(across("dp"));
}

TEST(SkippedRanks, WhereNoHashTellsWhatRanksWereGivenTheirPlacesDo) {
  const auto without_hashes = [](const std::string& axis, int32_t world) {
    FakeRun run(world);
    for (int32_t rank = 0; rank < world; ++rank) {
      if (world > 1) run.Place(rank, axis + "=" + std::to_string(rank));
      PassBuilder pass = run.Pass(rank, 0);
      RunThree(pass, "b", kFirstRows, kFirstRows, kFirstRows, rank == 1);
      for (io::Record& record : *pass.records()) record.hash.reset();
    }
    return run;
  };
  const auto of = [&](const std::string& axis) {
    return DiffOk(without_hashes(axis, 1), without_hashes(axis, 2));
  };
  const std::string note =
      "rank 1 of B has no record of b, and no hash tells whether it was given "
      "other data than rank 0; judged as if it was";
  for (const char* const axis : {"dp", "fsdp", "cp"}) {
    const DiffReport report = of(axis);
    ExpectSame(report);
    EXPECT_THAT(report.notes, testing::Contains(HasSubstr(note + ", as the ranks lie")));
  }
  const DiffReport report = of("tp");
  EXPECT_EQ(report.counts.unpaired_a, 2u);
  EXPECT_THAT(report.notes, testing::Contains(HasSubstr(note + " not, as the ranks lie")));
  for (const std::string& told : Job{}.Diff().notes) EXPECT_THAT(told, Not(HasSubstr("no hash")));
}

TEST(SkippedRanks, ARankThatHasNothingOfAStepSkippedItWhereItsManifestSaysThatRulesSelectIt) {
  const auto diff = [](const std::string& axis, bool is_counted, bool is_selected = true) {
    FakeRun a(1), b(2);
    a.Pass(0, 0).Module("a", kFirstRows, kFirstRows);
    for (const int32_t rank : {0, 1}) {
      b.Place(rank, axis + "=" + std::to_string(rank));
      PassBuilder pass = b.Pass(rank, 0);
      if (rank == 0) pass.Module("a", kFirstRows, kFirstRows);
      if (is_counted) b.Count(rank, "a", rank == 0 ? 1 : 0, 0, rank == 0 || is_selected);
    }
    return DiffOk(a, b);
  };
  for (const char* const axis : {"tp", "sp"}) {
    EXPECT_EQ(diff(axis, true).counts.unpaired_a, 2u);
    ExpectSame(diff(axis, true, /*is_selected=*/false));
    ExpectSame(diff(axis, false));  // rules of some ranks, of a run that was killed
  }
  ExpectSame(diff("dp", true));  // other data, as far as anyone knows
}

// Of what rank 0 kept in full the hash cannot be made, which is all that rank 2 kept.
TEST(SkippedRanks, WhatCannotBeReadIsToldThoughARankSkippedIt) {
  FakeRun a(1), b(3);
  a.Pass(0, 0).Module("a", kFirstRows, kFirstRows).Module("b", kFirstRows, kFirstRows);
  for (const int32_t rank : {0, 1, 2}) {
    b.Place(rank, "tp=" + std::to_string(rank));
    PassBuilder pass = b.Pass(rank, 0);
    pass.Module("a", kFirstRows, kFirstRows);
    if (rank == 1) continue;
    pass.Module("b", kFirstRows, kFirstRows);
    rank == 0 ? pass.last()->hash.reset() : pass.last()->payload.reset();
    if (rank == 0) pass.Damage(pass.last()->id);
  }
  const DiffReport report = DiffOk(a, b);
  EXPECT_EQ(report.counts.unpaired_a, 1u);  // the input
  EXPECT_THAT(Joined(Text(report, 1, 3)), HasSubstr("pass.tdp: offset 4096: digest"));
}

}  // namespace
}  // namespace tdump::compare
