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
#include "tests/compare/job_runs.h"

namespace tdump::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const Tensor kBatch = Matrix(4, 2, {1, 2, 3, 4, 5, 6, 7, 8});
const Tensor kFirstRows = Matrix(2, 2, {1, 2, 3, 4}), kLastRows = Matrix(2, 2, {5, 6, 7, 8});

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
  static void Fill(PassBuilder pass, const std::string& name, const Tensor& in, const Tensor& of_a,
                   const Tensor& of_c, bool without) {
    pass.Module("a", in, of_a);
    if (!without) pass.Module(name, in, in);
    pass.Module("c", in, of_c);
  }
  FakeRun Whole() const {
    FakeRun run(1);
    const Tensor& in = batches ? kBatch : kFirstRows;
    for (const uint64_t step : {0, 1}) Fill(run.Pass(0, step), name, in, in, in, false);
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
        Fill(run.Pass(rank, step), name, in, Times(in, first ? factor_a : 1),
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

void ExpectSame(const DiffReport& report) {
  EXPECT_EQ(report.overall, Overall::kSame) << Joined(Text(report, 1, 4));
  EXPECT_EQ(report.counts.unpaired_a + report.counts.unpaired_b, 0u);
  EXPECT_FALSE(report.origin);
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
      Job::Fill(b.Pass(rank, step), "b", in, in, in, rank == 1 && step == 0);
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
      Job::Fill(pass, "b", kFirstRows, kFirstRows, kFirstRows, rank == 1);
      if (rank == 1 && is_called) pass.End(pass.Begin("b", "", {}), "b", "", {});
    }
    return run;
  };
  FakeRun a(1);
  Job::Fill(a.Pass(0, 0), "b", kFirstRows, kFirstRows, kFirstRows, false);
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
      Job::Fill(run.Pass(rank, 0), "log", kFirstRows, kFirstRows, kFirstRows, rank > 0);
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
      Job::Fill(pass, name, in, in, in, skips && rank == 1);
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

// An encoder of images, of which one half of a batch has none.
TEST(SkippedRanks, ARankWhoseDataHadNothingForItSkippedNothing) {
  FakeRun a(1);
  PassBuilder whole = a.Pass(0, 0);
  whole.Module("a", kBatch, kBatch);
  whole.Module("vis", kFirstRows, kFirstRows);
  whole.Module("c", kBatch, kBatch);
  const auto of = [&](const std::string& axis) {
    FakeRun b(2);
    for (const int32_t rank : {0, 1}) {
      b.Place(rank, axis + "=" + std::to_string(rank));
      const Tensor& in = rank == 0 ? kFirstRows : kLastRows;
      PassBuilder pass = b.Pass(rank, 0);
      pass.Module("a", in, in);
      if (rank == 0) pass.Module("vis", in, in);
      pass.Module("c", in, in);
    }
    return DiffOk(a, b);
  };
  for (const char* const axis : {"dp", "cp"}) ExpectSame(of(axis));
  EXPECT_EQ(of("tp").counts.unpaired_a, 2u);  // all of them are given the same
}

// Rows 2 i and 2 i + 1 of a batch, for each part i.
Tensor RowsOf(const std::vector<int>& parts) {
  std::vector<float> values;
  for (const int part : parts) {
    for (const int row : {2 * part, 2 * part + 1}) {
      values.push_back(static_cast<float>(1 + row) * 1.37f);
      values.push_back(static_cast<float>(row * row) - 3.1f);
    }
  }
  return Matrix(2 * static_cast<int64_t>(parts.size()), 2, values);
}

// Of four parts of a batch, by places on `axis`, those of `images` have some; `skips`: this rank
// does not run their encoder.
FakeRun Images(const std::string& axis, int32_t world, const std::vector<bool>& images,
               int32_t skips = -1) {
  FakeRun run(world);
  const int each = 4 / world;
  for (int32_t rank = 0; rank < world; ++rank) {
    if (world > 1) run.Place(rank, axis + "=" + std::to_string(rank));
    std::vector<int> parts, with_images;
    for (int part = each * rank; part < each * (rank + 1); ++part) {
      parts.push_back(part);
      if (images[static_cast<size_t>(part)]) with_images.push_back(part);
    }
    PassBuilder pass = run.Pass(rank, 0);
    pass.Module("a", RowsOf(parts), RowsOf(parts));
    if (!with_images.empty() && rank != skips)
      pass.Module("vis", RowsOf(with_images), RowsOf(with_images));
    pass.Module("c", RowsOf(parts), RowsOf(parts));
  }
  return run;
}

TEST(SkippedRanks, WhatRanksOfOtherDataHoldMayBeTheWhole) {
  for (const auto& images : {std::vector<bool>{true, false, false, false},
                             {true, true, false, false},
                             {true, true, true, false},
                             {false, true, true, true},
                             {true, false, true, true}}) {
    for (const char* const axis : {"dp", "fsdp", "cp"}) {
      for (const int32_t a : {1, 2, 4}) {
        for (const int32_t b : {1, 2, 4}) {
          SCOPED_TRACE(testing::Message() << axis << " " << a << " against " << b << ", parts "
                                          << testing::PrintToString(images));
          ExpectSame(DiffOk(Images(axis, a, images), Images(axis, b, images)));
        }
      }
    }
  }
  // A part of it is missing.
  const std::vector<bool> images = {true, true, true, false};
  EXPECT_GT(DiffOk(Images("dp", 1, images), Images("dp", 4, images, 2)).counts.unpaired_a, 0u);
  EXPECT_EQ(DiffOk(Images("dp", 2, images), Images("dp", 4, images, 1)).overall, Overall::kDiffers);
  EXPECT_EQ(DiffOk(Images("dp", 4, images), Images("dp", 4, images, 0)).overall, Overall::kDiffers);
}

// Two of three ranks, each with data of its own, run what depends on none of it.
TEST(SkippedRanks, WhatIsTheSameForAllDataIsMissed) {
  const auto of = [](int32_t world, bool skips) {
    FakeRun run(world);
    for (int32_t rank = 0; rank < world; ++rank) {
      if (world > 1) run.Place(rank, "dp=" + std::to_string(rank));
      PassBuilder pass = run.Pass(rank, 0);
      const Tensor data = world > 1 ? RowsOf({rank}) : RowsOf({0, 1, 2});
      pass.Module("a", data, data);
      if (!skips || rank != 2) pass.Module("table", kFirstRows, kFirstRows);
      pass.Module("c", data, data);
    }
    return run;
  };
  ExpectSame(DiffOk(of(1, false), of(3, false)));
  const DiffReport report = DiffOk(of(1, false), of(3, true));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->name, "table");
  EXPECT_EQ(report.origin->rank, 2);
}

// Step 1 lacks b on the last rank, though all were given the same.
FakeRun CopiesOn(const std::string& axis, int32_t world, bool skips, bool has_root) {
  FakeRun run(world);
  for (int32_t rank = 0; rank < world; ++rank) {
    if (world > 1) run.Place(rank, axis + "=" + std::to_string(rank));
    for (const uint64_t step : {0, 1}) {
      PassBuilder pass = run.Pass(rank, step);
      const uint64_t root = has_root ? pass.Begin(".", "", {{"0", kFirstRows}}) : 0;
      Job::Fill(pass, "b", kFirstRows, kFirstRows, kFirstRows,
                skips && step == 1 && rank == world - 1);
      if (has_root) pass.End(root, ".", "", {{"", kFirstRows}});
    }
  }
  return run;
}

TEST(SkippedRanks, RanksThatWereGivenTheSameRunTheSameOnAnyAxis) {
  for (const char* const axis : {"tp", "dp", "fsdp", "cp"}) {
    for (const bool has_root : {false, true}) {
      for (const int32_t world_a : {1, 2}) {
        SCOPED_TRACE(testing::Message() << axis << ", root " << has_root << ", A " << world_a);
        const FakeRun a = CopiesOn(axis, world_a, false, has_root);
        const DiffReport report = DiffOk(a, CopiesOn(axis, 4, true, has_root));
        EXPECT_EQ(report.overall, Overall::kDiffers);
        EXPECT_EQ(report.counts.unpaired_a, 2u);
        ASSERT_TRUE(report.origin);
        EXPECT_EQ(report.origin->name, "b");
        EXPECT_EQ(report.origin->rank, 3);
        ExpectSame(DiffOk(a, CopiesOn(axis, 4, false, has_root)));
      }
    }
  }
}

TEST(SkippedRanks, WhereNoHashTellsWhatRanksWereGivenTheirPlacesDo) {
  const auto without_hashes = [](const std::string& axis, int32_t world) {
    FakeRun run(world);
    for (int32_t rank = 0; rank < world; ++rank) {
      if (world > 1) run.Place(rank, axis + "=" + std::to_string(rank));
      PassBuilder pass = run.Pass(rank, 0);
      Job::Fill(pass, "b", kFirstRows, kFirstRows, kFirstRows, rank == 1);
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

// Rank 1 has no images at step 1.
TEST(SkippedRanks, OtherDataNeedsNoPlaces) {
  const auto of = [](int32_t world, bool is_same) {
    FakeRun run(world);
    for (int32_t rank = 0; rank < world; ++rank) {
      std::vector<int> parts = {0, 1};
      if (world == 2) parts = {is_same ? 0 : rank};
      for (const uint64_t step : {0, 1}) {
        PassBuilder pass = run.Pass(rank, step);
        pass.Module("a", RowsOf(parts), RowsOf(parts));
        if (step == 0 || rank == 0) {
          const Tensor images = RowsOf(step == 0 ? parts : std::vector<int>{0});
          pass.Module("vis", images, images);
        }
        pass.Module("c", RowsOf(parts), RowsOf(parts));
      }
      run.Count(rank, "vis", rank == 0 ? 2 : 1);
    }
    return run;
  };
  ExpectSame(DiffOk(of(1, false), of(2, false)));
  EXPECT_GT(DiffOk(of(1, false), of(2, true)).counts.unpaired_a, 0u);
}

// One half of the batch has no images; of the other, one of two ranks skips their encoder.
TEST(SkippedRanks, OtherDataOnBothSidesHidesNoSkippedCall) {
  const auto of = [](int32_t tp, bool all_images, bool skips) {
    FakeRun run(2 * tp);
    for (int32_t rank = 0; rank < 2 * tp; ++rank) {
      const int half = rank / tp;
      const std::string dp = "dp=" + std::to_string(half);
      run.Place(rank, tp == 1 ? dp : "tp=" + std::to_string(rank % tp) + " " + dp);
      PassBuilder pass = run.Pass(rank, 0);
      pass.Module("xa", RowsOf({half}), RowsOf({half}));
      if ((half == 0 || all_images) && !(skips && rank == 1))
        pass.Module("vis", RowsOf({half}), RowsOf({half}));
      pass.Module("xc", RowsOf({half}), RowsOf({half}));
    }
    return run;
  };
  const DiffOptions options = WithDims("", "b[dp] d");
  for (const bool all_images : {false, true}) {
    const FakeRun a = of(1, all_images, false);
    ExpectSame(DiffOk(a, of(2, all_images, false), options));
    const DiffReport report = DiffOk(a, of(2, all_images, true), options);
    EXPECT_EQ(report.counts.unpaired_a, 2u);
    ASSERT_TRUE(report.origin);
    EXPECT_EQ(report.origin->name, "vis");
    EXPECT_EQ(report.origin->rank, 1);
    const std::string others = all_images ? "ranks 0,2-3 have" : "rank 0 has";
    EXPECT_THAT(Joined(Text(report, 1, 3)),
                HasSubstr("rank 1 of B has no record of vis in step 0, though " + others));
  }
}

void AddInMicroBatch(PassBuilder* pass, const char* name, uint32_t micro, const Tensor& rows) {
  pass->Module(name, rows, rows);
  pass->last_call()->call.micro = micro;
  for (auto record = pass->records()->end() - 2; record != pass->records()->end(); ++record)
    record->key.micro = micro;
}

// A batch of three by micro-batches of one: one rank has two of them.
TEST(SkippedRanks, AMicroBatchThatTheRankDoesNotHaveIsNotSkipped) {
  const auto of = [&](int32_t ranks, bool has_it) {
    FakeRun run(ranks);
    for (int32_t rank = 0; rank < ranks; ++rank) {
      run.Place(rank, "dp=" + std::to_string(rank));
      PassBuilder pass = run.Pass(rank, 0);
      AddInMicroBatch(&pass, "a", 0, ranks == 1 ? kBatch : rank == 1 ? kLastRows : kFirstRows);
      if (rank == 1 && !has_it) continue;
      if (rank == 0) AddInMicroBatch(&pass, "b", 1, kFirstRows);
      AddInMicroBatch(&pass, "c", 1,
                      ranks == 1 && has_it ? kBatch
                      : rank == 1          ? kLastRows
                                           : kFirstRows);
    }
    return run;
  };
  ExpectSame(DiffOk(of(1, false), of(2, false)));
  ExpectSame(DiffOk(of(1, true), of(2, true)));
}

TEST(SkippedRanks, RanksThatWereGivenTheSameHaveTheSameMicroBatches) {
  const auto of = [&](const std::string& axis, int32_t ranks, bool skips) {
    FakeRun run(ranks);
    for (int32_t rank = 0; rank < ranks; ++rank) {
      if (ranks > 1) run.Place(rank, axis + "=" + std::to_string(rank));
      PassBuilder pass = run.Pass(rank, 0);
      AddInMicroBatch(&pass, "a", 0, kFirstRows);
      if (rank == 0 || !skips) AddInMicroBatch(&pass, "a", 1, kFirstRows);
    }
    return run;
  };
  for (const char* const axis : {"tp", "sp", "dp", "cp"}) {
    EXPECT_EQ(DiffOk(of(axis, 1, false), of(axis, 2, true)).counts.unpaired_a, 2u) << axis;
    ExpectSame(DiffOk(of(axis, 1, false), of(axis, 2, false)));
  }
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

// A rank of batches that died before it wrote a pass.
TEST(SkippedRanks, ARankThatIsGoneIsNoOtherInput) {
  const auto diff = [](bool closed) {
    FakeRun a(1), b(2);
    const auto fill = [](PassBuilder pass, const Tensor& in) {
      const uint64_t root = pass.Begin(".", "", {{"0", in}});
      pass.Module("a", in, in);
      pass.End(root, ".", "", {{"", in}});
      pass.Param("a", "weight", kInput);
    };
    fill(a.Pass(0, 0), kBatch);
    fill(b.Pass(0, 0), kFirstRows);
    b.index()->ranks[1].closed = closed;
    b.index()->ranks[1].how = "killed";
    return DiffOk(a, b);
  };
  const DiffReport report = diff(false);
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_FALSE(report.inputs.first_differing_step);
  EXPECT_FALSE(report.origin);
  EXPECT_EQ(report.counts.paired, 1u);  // the weight
  EXPECT_THAT(Joined(Text(report, 1, 2)), HasSubstr("rank 1 of B has no step 0"));
  EXPECT_TRUE(diff(true).inputs.first_differing_step);  // it recorded nothing: rules, or the data
}

}  // namespace
}  // namespace tdump::compare
