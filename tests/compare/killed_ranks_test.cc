#include "compare/killed_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "compare/origin_lines.h"
#include "tests/compare/job_runs.h"

namespace tdump::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

constexpr const char* kGone = "killed or left by _exit";

// In its last pass, or behind it.
void Kill(FakeRun* run, int32_t rank, const std::string& how = kGone) {
  io::RankState& state = run->index()->ranks[static_cast<size_t>(rank)];
  state.closed = false;
  state.lost = state.killed = true;
  state.how = how;
}

// Where a rank ends: it runs `calls` calls of step `step`, and is given the next one with
// `is_given`.
struct End {
  uint64_t step = 0, calls = 0;
  bool is_given = false;
};

// Of one rank, and of two that hold the left and the right columns of what a, b and c return.
struct Job {
  std::vector<std::string> places = {"", ""};
  std::map<int32_t, End> ends = {};
  bool is_part = true;   // the passes in which ranks end
  bool is_whole = true;  // which of the two jobs has one rank
  // Of these a rank of the second half returns something wrong.
  std::string wrong;
  uint64_t wrong_step = 0;
  std::vector<std::string> modules = {"a", "b", "c"};
  uint64_t steps = 2;

  static FakeRun Whole(const std::vector<std::string>& modules = {"a", "b", "c"},
                       uint64_t steps = 2) {
    FakeRun run(1);
    for (uint64_t step = 0; step < steps; ++step) {
      PassBuilder pass = run.Pass(0, step);
      for (const std::string& name : modules) pass.Module(name, kInput, kWhole);
    }
    return run;
  }

  void Fill(PassBuilder pass, int32_t rank, uint64_t step, uint64_t calls, bool is_given) const {
    const bool is_right = rank % 2 == 1;
    for (const std::string& name : modules) {
      if (calls == 0 && is_given) pass.Begin(name, "", {{"0", kInput}});
      if (calls == 0) return;
      --calls;
      const bool is_wrong = is_right && name == wrong && step == wrong_step;
      pass.Module(name, kInput, is_wrong ? kWrongRight : is_right ? kRight : kLeft);
    }
  }

  // Ranks end as `ends` says, and nobody is told to be killed.
  FakeRun Cut() const {
    const auto world = static_cast<int32_t>(places.size());
    FakeRun run(world);
    for (int32_t rank = 0; rank < world; ++rank) {
      const std::string& place = places[static_cast<size_t>(rank)];
      if (!place.empty()) run.Place(rank, place);
      const auto end = ends.find(rank);
      for (uint64_t step = 0; step < steps; ++step) {
        const bool ends_here = end != ends.end() && end->second.step == step;
        Fill(run.Pass(rank, step), rank, step, ends_here ? end->second.calls : modules.size(),
             ends_here && end->second.is_given);
        if (ends_here && is_part) run.MakePart(rank);
        if (ends_here) break;
      }
    }
    return run;
  }
  FakeRun Of() const {
    FakeRun run = Cut();
    for (const auto& [rank, end] : ends) Kill(&run, rank);
    return run;
  }
  DiffReport Diff(const DiffOptions& options = {}) const {
    return DiffOk(Whole(modules, steps), Of(), options);
  }
};

// Rank 1 is killed in step 1, in b.
Job KilledInB() { return {.ends = {{1, {.step = 1, .calls = 1, .is_given = true}}}}; }

// Of no killed rank.
void ExpectOriginOf(const DiffReport& report, const std::string& name, uint64_t step) {
  ASSERT_TRUE(report.origin);
  EXPECT_FALSE(report.origin->killed);
  EXPECT_EQ(report.origin->name, name);
  EXPECT_EQ(report.origin->step, step);
}

void ExpectKilled(const DiffReport& report, char side, const std::vector<int32_t>& ranks,
                  const std::string& title) {
  ASSERT_TRUE(report.origin);
  ASSERT_TRUE(report.origin->killed);
  EXPECT_EQ(report.origin->killed->side, side);
  EXPECT_EQ(report.origin->killed->ranks, ranks);
  EXPECT_THAT(Joined(Text(report, 1, 2)), HasSubstr("ORIGIN " + title + " "));
}

// All but the origin, as the JSON document has it.
Json Rest(const DiffReport& report) {
  Json json = Json::parse(RenderJson(report, {}, {}, false));
  json.erase("origin");
  return json;
}

TEST(KilledRanks, TheRankIsNamedAndNotThoseThatLackItsShard) {
  const DiffReport report = KilledInB().Diff();
  EXPECT_EQ(report.overall, Overall::kDiffers);
  ExpectKilled(report, 'B', {1}, "rank 1 of B, step 1, killed or left by _exit in b");
  EXPECT_THAT(Joined(Text(report, 1, 2)),
              HasSubstr("the last it recorded is b, input 0; its part of b, output, and of what "
                        "comes after it, is missing"));
  EXPECT_EQ(report.origin->kind, OriginKind::kMissing);
  EXPECT_EQ(report.origin->name, "b");
  EXPECT_EQ(report.origin->rank, 1);
  EXPECT_THAT(report.origin->ranks, ElementsAre(1));
  const Json json = Json::parse(RenderJson(report, {}, {}, false))["origin"]["killed"];
  EXPECT_EQ(json, (Json{{"side", "B"},
                        {"ranks", {1}},
                        {"how", kGone},
                        {"last", "b@input#0"},
                        {"lacking", "b@output#"}}));
}

// What was given is recorded when a call begins: without it the call before was the last.
TEST(KilledRanks, ItIsToldWhatTheRankRecordedLast) {
  const auto title = [](const End& end) {
    return OriginTitle(*Job{.ends = {{1, end}}}.Diff().origin);
  };
  EXPECT_THAT(title({.step = 1, .calls = 1}), HasSubstr("_exit after a"));
  EXPECT_THAT(title({.step = 1, .calls = 2}), HasSubstr("_exit after b"));
  EXPECT_THAT(title({.step = 1, .calls = 2, .is_given = true}), HasSubstr("_exit in c"));
  EXPECT_THAT(title({.step = 1, .calls = 0}), HasSubstr("_exit before its first record"));
}

TEST(KilledRanks, NothingButTheNameChanges) {
  for (const char* const wrong : {"", "a", "b", "c"}) {
    for (const uint64_t calls : {0, 1, 2, 3}) {
      const Job job{.ends = {{1, {.step = 1, .calls = calls}}}, .wrong = wrong};
      const FakeRun whole = Job::Whole();
      const DiffReport cut = DiffOk(whole, job.Cut()), killed = DiffOk(whole, job.Of());
      EXPECT_EQ(Rest(cut), Rest(killed)) << wrong << calls;
      EXPECT_EQ(cut.overall, killed.overall);
    }
  }
}

TEST(KilledRanks, EitherSideMayHaveLostIt) {
  const DiffReport report = DiffOk(KilledInB().Of(), Job::Whole());
  ExpectKilled(report, 'A', {1}, "rank 1 of A, step 1, killed or left by _exit in b");
  EXPECT_EQ(report.origin->rank, kAllRanks);
  EXPECT_EQ(report.origin->rank_a, 1);
}

TEST(KilledRanks, OfBothSidesTheOneThatLacksItFirst) {
  Job late = KilledInB();
  late.ends[1].calls = 2;
  late.places = {"tp=0", "tp=1"};
  DiffOptions together;
  together.job = JobOptions{};
  ExpectKilled(DiffOk(KilledInB().Of(), late.Of(), together), 'A', {1},
               "rank 1 of A, step 1, killed or left by _exit in b");
  ExpectKilled(DiffOk(late.Of(), KilledInB().Of(), together), 'B', {1},
               "rank 1 of B, step 1, killed or left by _exit in b");
}

// Of four ranks that hold copies of b, and parts of c; rank 3 of both jobs is killed in step 1,
// before b or behind it.
FakeRun KilledBefore(const std::string& module, int32_t wrong_rank = -1) {
  FakeRun run(4);
  for (int32_t rank = 0; rank < 4; ++rank) {
    run.Place(rank, "tp=" + std::to_string(rank));
    for (const uint64_t step : {0, 1}) {
      const bool is_cut = step == 1 && rank == 3;
      const bool is_wrong = step == 1 && rank == wrong_rank;
      PassBuilder pass = run.Pass(rank, step);
      pass.Module("a", kInput, kInput);
      if (is_cut && module == "b") continue;
      pass.Module("b", kInput, is_wrong ? kWrongRight : kRight);
      if (!is_cut) pass.Module("c", kInput, is_wrong ? kWrongRight : kRight);
    }
  }
  run.MakePart(3);
  Kill(&run, 3);
  return run;
}

TEST(KilledRanks, WhereBothSidesLackItAlikeTheOperatorIsNamed) {
  for (const char* const dims : {"", "b h"}) {
    DiffOptions options = WithDims("b@output", dims[0] == '\0' ? "b h" : dims);
    if (dims[0] == '\0') options.job = JobOptions{};
    const DiffReport report = DiffOk(KilledBefore("b"), KilledBefore("b", 2), options);
    ExpectOriginOf(report, "b", 1);
    EXPECT_EQ(report.origin->rank, 2);
    // B lacks b alone, c as A does.
    ExpectKilled(DiffOk(KilledBefore("c"), KilledBefore("b", 2), options), 'B', {3},
                 "rank 3 of B, step 1, killed or left by _exit after a");
  }
}

// Rank 2 of B lacks a log of step 1, and is killed behind `b`, of which statistics alone are kept:
// what it lacks is not behind what it recorded last.
TEST(KilledRanks, WhatIsComparedRankByRankTellsHowFarItCame) {
  const auto job = [](bool is_cut) {
    FakeRun run(4);
    for (int32_t rank = 0; rank < 4; ++rank) {
      run.Place(rank, "tp=" + std::to_string(rank));
      const auto part = static_cast<float>(10 * rank);
      for (const uint64_t step : {0, 1}) {
        PassBuilder pass = run.Pass(rank, step);
        pass.Tap("a", "out", kInput);
        if (!is_cut || rank != 2 || step == 0) pass.Tap("log", "out", kInput);
        pass.Tap("b", "out", WithStatisticsAlone(Matrix(1, 2, {part + 1, part + 2})));
      }
    }
    if (!is_cut) return run;
    run.MakePart(2);
    Kill(&run, 2);
    return run;
  };
  DiffOptions together;
  together.job = JobOptions{};
  const DiffReport report = DiffOk(job(false), job(true), together);
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_FALSE(report.origin && report.origin->killed);
}

TEST(KilledRanks, WhatDiffersBeforeStaysTheOrigin) {
  Job job = KilledInB();
  job.wrong = "c";  // of step 0
  ExpectOriginOf(job.Diff(), "c", 0);
  job.wrong = "a";
  job.wrong_step = 1;
  ExpectOriginOf(job.Diff(), "a", 1);
}

TEST(KilledRanks, WhatDiffersBehindFollows) {
  Job job{.places = {"", "", "", ""}, .ends = {{2, {.step = 1, .calls = 1}}}, .wrong = "c"};
  job.wrong_step = 1;
  const DiffReport report = job.Diff();
  ExpectKilled(report, 'B', {2}, "rank 2 of B, step 1, killed or left by _exit after a");
}

TEST(KilledRanks, WhoEndedInOrderOrStillRunsWasNotKilled) {
  const FakeRun whole = Job::Whole();
  FakeRun closed = KilledInB().Cut(), running = KilledInB().Cut();
  running.index()->ranks[1].closed = false;
  running.index()->ranks[1].how = "still running";
  for (const FakeRun* const b : {&closed, &running}) {
    const DiffReport report = DiffOk(whole, *b);
    EXPECT_EQ(report.overall, Overall::kDiffers);
    EXPECT_FALSE(report.origin && report.origin->killed);
  }
}

// Nobody can look at a process of another host.
TEST(KilledRanks, WhereItMayRunThatIsSaid) {
  FakeRun b = KilledInB().Cut();
  Kill(&b, 1, "killed or still running");
  ExpectKilled(DiffOk(Job::Whole(), b), 'B', {1},
               "rank 1 of B, step 1, killed or still running in b");
}

// It skips c in step 1, and is killed in step 2.
TEST(KilledRanks, ARankThatWentOnWasNotKilledThere) {
  for (const bool is_place_known : {true, false}) {
    const Job job{.steps = 3};
    FakeRun b(2);
    for (const int32_t rank : {0, 1}) {
      if (is_place_known) b.Place(rank, "tp=" + std::to_string(rank));
      for (const uint64_t step : {0, 1, 2}) {
        const uint64_t calls = rank == 0 || step == 0 ? 3 : step == 1 ? 2 : 1;
        job.Fill(b.Pass(rank, step), rank, step, calls, false);
      }
    }
    b.MakePart(1);
    Kill(&b, 1);
    const DiffReport report = DiffOk(Job::Whole(job.modules, 3), b);
    ExpectOriginOf(report, "c", 1);
    EXPECT_EQ(report.origin->skipped.has_value(), is_place_known);
  }
}

TEST(KilledRanks, AnotherProcessOfTheRankMayHaveEnded) {
  FakeRun b = KilledInB().Of();
  const_cast<io::ProcessEntry&>(b.processes()[1]).close.emplace();
  const DiffReport report = DiffOk(Job::Whole(), b);
  EXPECT_FALSE(report.origin && report.origin->killed);
}

TEST(KilledRanks, ThoseThatWereKilledFirstAreNamed) {
  const std::vector<std::string> places(4);
  const End early{.step = 1, .calls = 1}, late{.step = 1, .calls = 2},
      before{.step = 0, .calls = 2};
  const auto title = [&](std::map<int32_t, End> ends, const std::string& allowed = "none") {
    DiffOptions options;
    options.pass.allow_failed = options.allow_unpaired = {NameFilter(), Named(allowed)};
    return OriginTitle(*Job{.places = places, .ends = std::move(ends)}.Diff(options).origin);
  };
  EXPECT_THAT(title({{1, late}, {2, early}, {3, late}}), HasSubstr("rank 2 of B, step 1, killed"));
  // Also where those lack it that were killed later.
  EXPECT_THAT(title({{1, late}, {2, early}, {3, late}}, "b"),
              HasSubstr("rank 2 of B, step 1, killed"));
  EXPECT_THAT(title({{1, early}, {2, late}, {3, early}}),
              HasSubstr("ranks 1,3 of B, step 1, killed"));
  EXPECT_THAT(title({{1, early}, {3, before}}), HasSubstr("rank 3 of B, step 0, killed"));
  EXPECT_THAT(title({{0, early}, {1, late}}), HasSubstr("rank 0 of B, step 1, killed"));
}

// It counts one call more than the others at each step.
TEST(KilledRanks, TheFirstRankMayCountOtherwise) {
  const Job job = {.places = {"", "", ""}};
  FakeRun b(3);
  for (const int32_t rank : {0, 1, 2}) {
    for (const uint64_t step : {0, 1}) {
      PassBuilder pass = b.Pass(rank, step);
      if (rank == 0) pass.Tap("log", "loss", kInput).Tap("log", "loss", kInput);
      job.Fill(pass, rank, step, rank == 0 && step == 1 ? 1 : 3, false);
    }
  }
  b.MakePart(0);
  Kill(&b, 0);
  DiffOptions options;
  options.allow_unpaired = Named("log");
  const DiffReport report = DiffOk(Job::Whole(), b, options);
  ExpectKilled(report, 'B', {0}, "rank 0 of B, step 1, killed or left by _exit after a");
}

TEST(KilledRanks, ItMayBeOfTheFirstStep) {
  for (const char* const axis : {"", "tp=", "dp=", "fsdp="}) {
    const std::string name = axis;
    Job job{.ends = {{1, {.step = 0, .calls = 1}}}, .steps = 1};
    if (!name.empty()) job.places = {name + "0", name + "1"};
    ExpectKilled(job.Diff(), 'B', {1}, "rank 1 of B, step 0, killed or left by _exit after a");
  }
}

// Half a model on the other rank says nothing of how large it is.
TEST(KilledRanks, BeforeItsFirstRecordItIsNoSmallerModel) {
  for (const bool is_known : {true, false}) {
    FakeRun a(1), b(2);
    PassBuilder whole = a.Pass(0, 0), half = b.Pass(0, 0);
    for (const char* const name : {"a", "b", "c"}) {
      whole.Param(name, "weight", kWhole).last()->payload = kWhole.record.payload;
      half.Param(name, "weight", kLeft).last()->payload = kLeft.record.payload;
    }
    whole.Module("a", kInput, kWhole);
    half.Module("a", kInput, kLeft);
    b.Pass(1, 0);
    b.MakePart(1);
    Kill(&b, 1);
    for (int32_t rank : {0, 1}) {
      if (is_known) b.Place(rank, rank == 0 ? "tp=0" : "tp=1");
    }
    const DiffReport report = DiffOk(a, b);
    EXPECT_EQ(report.overall, Overall::kDiffers);
    EXPECT_THAT(Joined(Text(report)),
                HasSubstr("shapes differ, and rank 1 of B recorded nothing of step 0 (rank 1: "
                          "killed or left by _exit, last step"));
    if (is_known)
      ExpectKilled(report, 'B', {1},
                   "rank 1 of B, step 0, killed or left by _exit before its first record");
  }
}

// Rank 0 runs a and b, and what b returns is wrong. Rank 1 lacks b: as another stage of a pipeline
// does, or since it was killed.
TEST(KilledRanks, AStageOfAPipelineLacksNothing) {
  const auto diff = [](const std::string& axis, const std::vector<std::string>& of_rank_1) {
    FakeRun a(1), b(2);
    PassBuilder whole = a.Pass(0, 0), first = b.Pass(0, 0), second = b.Pass(1, 0);
    for (const char* const name : {"d", "a", "b"}) whole.Module(name, kInput, kLeft);
    first.Module("a", kInput, kLeft).Module("b", kInput, kRight);
    for (const std::string& name : of_rank_1) second.Module(name, kInput, kLeft);
    for (const int32_t rank : {0, 1})
      if (!axis.empty()) b.Place(rank, axis + "=" + std::to_string(rank));
    b.MakePart(1);
    Kill(&b, 1);
    return DiffOk(a, b);
  };
  ExpectOriginOf(diff("pp", {"d"}), "b", 0);
  ExpectOriginOf(diff("ep", {"d"}), "b", 0);
  ExpectOriginOf(diff("", {"d"}), "b", 0);
  ExpectOriginOf(diff("", {"d", "a"}), "b", 0);
  // They ran the same until then.
  ExpectKilled(diff("", {"a"}), 'B', {1}, "rank 1 of B, step 0, killed or left by _exit after a");
}

// Rank 0 alone logs, between a and b; in step 1 what it logs is wrong.
TEST(KilledRanks, WhatTheRankNeverHadIsNotMissed) {
  const auto job = [](int32_t world, const Tensor& logged) {
    FakeRun run(world);
    for (int32_t rank = 0; rank < world; ++rank) {
      for (const uint64_t step : {0, 1}) {
        PassBuilder pass = run.Pass(rank, step);
        pass.Module("a", kInput, kInput);
        if (rank == 0) pass.Module("log", kInput, step == 0 ? kInput : logged);
        if (rank == 0 || step == 0) pass.Module("b", kInput, kInput);
      }
    }
    return run;
  };
  FakeRun b = job(2, kWrongRight);
  b.MakePart(1);
  Kill(&b, 1);
  ExpectOriginOf(DiffOk(job(1, kInput), b), "log", 1);
}

TEST(KilledRanks, WhatExpertsDoIsNotMissedAtTheFirstStep) {
  Job job{.places = {"dp=0", "dp=1"},
          .ends = {{1, {.step = 0, .calls = 1}}},
          .modules = {"a", "experts.3", "c"},
          .steps = 1};
  ExpectOriginOf(job.Diff(), "experts.3", 0);
}

// Copies that the others hold are whole: that one is lost is listed, and named.
TEST(KilledRanks, ACopyThatIsLostIsNamedToo) {
  const auto copies = [](bool is_killed) {
    FakeRun run(3);
    for (const int32_t rank : {0, 1, 2}) {
      for (const uint64_t step : {0, 1}) {
        PassBuilder pass = run.Pass(rank, step);
        pass.Module("a", kInput, kInput);
        if (rank != 1 || step == 0) pass.Module("b", kInput, kInput);
      }
    }
    run.MakePart(1);
    if (is_killed) Kill(&run, 1);
    return run;
  };
  FakeRun a(1);
  for (const uint64_t step : {0, 1})
    a.Pass(0, step).Module("a", kInput, kInput).Module("b", kInput, kInput);
  const DiffReport report = DiffOk(a, copies(true)), cut = DiffOk(a, copies(false));
  ExpectKilled(report, 'B', {1}, "rank 1 of B, step 1, killed or left by _exit after a");
  EXPECT_EQ(Rest(report), Rest(cut));
  EXPECT_EQ(report.counts.failing, 0u);
  DiffOptions options;
  options.allow_unpaired = Named("b");
  const DiffReport allowed = DiffOk(a, copies(true), options);
  EXPECT_EQ(allowed.overall, Overall::kSame);
  EXPECT_FALSE(allowed.origin);
}

TEST(KilledRanks, WhatIsAllowedToFailIsNoOrigin) {
  DiffOptions options;
  options.pass.allow_failed = {NameFilter(), Named("b")};
  const DiffReport report = KilledInB().Diff(options);
  ASSERT_TRUE(report.origin);
  EXPECT_THAT(ToText(report.origin->killed->lacking), HasSubstr("c@"));
}

// Dims that somebody gave: the tensor cannot be put together.
TEST(KilledRanks, AShardThatSomebodyNamesIsMissed) {
  const DiffReport report = KilledInB().Diff(WithDims("b@output", "r c[rank]", 'B'));
  EXPECT_GT(report.counts.unresolved, 0u);
  ExpectKilled(report, 'B', {1}, "rank 1 of B, step 1, killed or left by _exit in b");
}

// Nothing of step 1 came to the disk.
TEST(KilledRanks, ARankMayHaveBeenKilledBetweenSteps) {
  Job job{.ends = {{1, {.step = 0, .calls = 3}}}, .is_part = false};
  const DiffReport report = job.Diff();
  ExpectKilled(report, 'B', {1}, "rank 1 of B, step 1, killed or left by _exit after step 0");
  EXPECT_THAT(Joined(Text(report, 1, 2)),
              HasSubstr("nothing of step 1 was recorded; its part of "));
  // Its step 0 is whole: what is wrong there is no fault of that.
  job.wrong = "b";
  ExpectOriginOf(job.Diff(), "b", 0);
}

TEST(KilledRanks, AWeightThatFailsBeforeStaysTheOrigin) {
  const auto of = [](FakeRun run, float weight) {
    for (const int32_t rank : {0, 1}) {
      if (rank >= run.index()->world) break;
      PassBuilder pass = run.Pass(rank, 1);
      pass.Param("b", "weight", Matrix(1, 1, {weight}));
      const Tensor& out = run.index()->world == 1 ? kWhole : rank == 0 ? kLeft : kRight;
      pass.Module("a", kInput, out);
      if (rank == 0) pass.Module("b", kInput, out);
    }
    return run;
  };
  const auto first = [](int32_t world) {
    FakeRun run(world);
    for (int32_t rank = 0; rank < world; ++rank) {
      const Tensor& out = world == 1 ? kWhole : rank == 0 ? kLeft : kRight;
      run.Pass(rank, 0).Module("a", kInput, out).Module("b", kInput, out);
    }
    return run;
  };
  for (const float weight : {1.0f, 2.0f}) {
    FakeRun a = of(first(1), 1), b = of(first(2), weight);
    b.MakePart(1);
    Kill(&b, 1);
    const DiffReport report = DiffOk(a, b);
    ASSERT_TRUE(report.origin);
    EXPECT_EQ(report.origin->killed.has_value(), weight == 1);
    EXPECT_EQ(report.origin->parameter, weight == 1 ? "" : "b.weight");
  }
}

// In step 1 it recorded a weight, and not what it was given: nobody was given other tokens.
TEST(KilledRanks, ItsPartOfTheTokensMayBeMissing) {
  const auto ids = [](const std::vector<int64_t>& values) {
    return Vector<int64_t>("int64", values);
  };
  FakeRun a(1), b(2);
  const auto fill = [](PassBuilder pass, const Tensor& tokens, bool is_given) {
    pass.Param("a", "weight", kInput);
    if (!is_given) return;
    pass.End(pass.Begin(".", "", {{"0", tokens}}), ".", "", {{"", tokens}});
  };
  for (const uint64_t step : {0, 1}) {
    fill(a.Pass(0, step), ids({5, 6, 7, 8}), true);
    fill(b.Pass(0, step), ids({5, 6}), true);
    fill(b.Pass(1, step), ids({7, 8}), step == 0);
  }
  b.MakePart(1);
  const DiffReport cut = DiffOk(a, b);
  ExpectOriginOf(cut, ".", 1);
  Kill(&b, 1);
  const DiffReport report = DiffOk(a, b);
  ExpectKilled(report, 'B', {1}, "rank 1 of B, step 1, killed or left by _exit after a.weight");
  EXPECT_TRUE(report.inputs.judging_stopped);
  EXPECT_EQ(Rest(report), Rest(cut));
}

TEST(KilledRanks, RanksThatAreNotSelectedAreNotMissed) {
  DiffOptions options;
  options.pairing.ranks = *Spec::Parse("0");
  const DiffReport report = KilledInB().Diff(options);
  EXPECT_FALSE(report.origin && report.origin->killed);
}

}  // namespace
}  // namespace tdump::compare
