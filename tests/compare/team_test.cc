// One comparison shared by several processes, here threads: the report is that of one.
#include "compare/team.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "compare/diff.h"
#include "compare/pass_diff_archive.h"
#include "compare/report.h"
#include "tests/compare/fake_run.h"
#include "tests/compare/team_world.h"

namespace tdump::compare {
namespace {

// Three ranks, four steps; rank 1 goes wrong in step 2, one payload of rank 2 cannot be read.
void Fill(FakeRun* run, bool faulty) {
  const auto values = [](float x) { return Vector<float>("float32", {x, 2 * x, 3 * x}); };
  for (uint64_t step = 0; step < 4; ++step) {
    for (int32_t rank = 0; rank < 3; ++rank) {
      const float x = static_cast<float>(step + 1),
                  wrong = faulty && rank == 1 && step >= 2 ? 9 : 0;
      PassBuilder pass = run->Pass(rank, step);
      pass.Param("a", "weight", values(0.5f));
      pass.Module("a", values(x), values(2 * x + wrong));
      pass.Module("b", values(2 * x + wrong), values(3 * x + 2 * wrong));
      if (faulty && rank == 2 && step == 3) {
        pass.Module("c", values(x), values(x + 1));
        pass.Damage(7);
      } else {
        pass.Module("c", values(x), values(x));
      }
    }
  }
}

std::string Report(const FakeRun& a, const FakeRun& b, Team* team, unsigned threads) {
  DiffOptions options;
  options.top = ~size_t{0};
  options.pass.threads = threads;
  options.team = team;
  const CapturedRun left = a.side(), right = b.side();
  const Result<DiffReport> report = Diff(left, right, options);
  EXPECT_TRUE(report.ok());
  return report.ok() ? RenderJson(*report, left.Describe(), right.Describe(), false) : "";
}

TEST(TeamTest, AnyNumberOfProcessesGivesTheReportOfOne) {
  FakeRun a(3), b(3);
  Fill(&a, false);
  Fill(&b, true);
  const std::string alone = Report(a, b, nullptr, 1);
  EXPECT_NE(alone.find("\"damaged\""), std::string::npos);
  for (const int size : {1, 2, 3, 5, 20}) {
    SCOPED_TRACE(size);
    TeamWorld world(size);
    std::vector<std::thread> others;
    for (int rank = 1; rank < size; ++rank) {
      others.emplace_back([&, rank] {
        TeamMember member(&world, rank);
        Report(a, b, &member, 2);
      });
    }
    TeamMember first(&world, 0);
    EXPECT_EQ(Report(a, b, &first, 2), alone);
    for (std::thread& other : others) other.join();
  }
}

// What one process of a team is given and finds.
struct Part {
  std::string report, rows;  // of the first process
  Status status;
  size_t compared = 0;  // pairs
};

using Sides = std::pair<const FakeRun*, const FakeRun*>;

Part PartOf(Sides sides, DiffOptions options, Team* team) {
  Part part;
  size_t last = 0;
  options.top = ~size_t{0};
  options.pass.threads = 1;  // then each pair is told
  options.team = team;
  if (team != nullptr) options.pass.spill.in_memory = 0;  // where the pairs lie does not matter
  options.on_row = [&](const Row& row) { part.rows += RowToJson(row) + "\n"; };
  options.pass.on_pairs = [&](size_t done, size_t) {
    part.compared += done - (done > last ? last : 0);  // a step's first: from 0 on
    last = done;
  };
  const CapturedRun a = sides.first->side(), b = sides.second->side();
  const Result<DiffReport> report = Diff(a, b, options);
  part.status = report.status();
  if (report.ok()) part.report = RenderJson(*report, a.Describe(), b.Describe(), false);
  return part;
}

// `sides_of`: what each process sees.
std::vector<Part> Shared(int size, const std::function<Sides(int)>& sides_of,
                         const DiffOptions& options) {
  TeamWorld world(size);
  std::vector<Part> parts(static_cast<size_t>(size));
  std::vector<std::thread> processes;
  for (int rank = 0; rank < size; ++rank) {
    processes.emplace_back([&, rank] {
      TeamMember member(&world, rank);
      parts[static_cast<size_t>(rank)] = PartOf(sides_of(rank), options, &member);
    });
  }
  for (std::thread& process : processes) process.join();
  return parts;
}

Tensor Rows(std::vector<int64_t> sizes, float first) {
  std::vector<float> values(static_cast<size_t>(
      std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>())));
  std::iota(values.begin(), values.end(), first);
  return MakeTensor<float>("float32", std::move(sizes), values);
}

constexpr uint64_t kSteps = 3;
constexpr int kLayers = 6;

// Inputs on all ranks; outputs [ranks * 4, 3], their rows shared by the ranks.
FakeRun Sharded(int32_t world, bool faulty = false) {
  FakeRun run(world);
  const int64_t rows = 4 / world;
  for (uint64_t step = 0; step < kSteps; ++step) {
    for (int32_t rank = 0; rank < world; ++rank) {
      PassBuilder pass = run.Pass(rank, step);
      pass.Param("norm", "weight", Rows({3}, 0.5f));
      for (int layer = 0; layer < kLayers; ++layer) {
        const float x = static_cast<float>(100 * layer) + static_cast<float>(step);
        const bool wrong = faulty && step >= 1 && layer >= 2 && rank == world - 1;
        // Another copy of the input on one rank from the second step on.
        const bool other = faulty && step >= 1 && layer == 4 && rank == 0;
        pass.Module("layers." + std::to_string(layer), Rows({2, 3}, other ? x + 1 : x),
                    Rows({rows, 3}, x + static_cast<float>(rank * rows * 3) + (wrong ? 0.5f : 0)));
      }
      if (faulty && step == 2 && rank == 1) pass.Damage(5);
    }
  }
  return run;
}

TEST(TeamTest, RanksPutTogetherByAnyNumberOfProcessesGiveTheReportOfOne) {
  const FakeRun one = Sharded(1), four = Sharded(4, true), two = Sharded(2);
  DiffOptions with_job, with_rule;
  with_job.job = JobOptions{};
  with_job.job->dims.push_back({0, [](const std::string& name) { return name == "layers.1"; },
                                *Dims::Parse("... replicated[rank]")});  // which it is not
  auto rules = std::make_shared<BoundRules>();
  PredicateMistake mistake;
  rules->Add({.matches = [](const std::string& name) { return name == "layers.3"; },
              .expect = *Predicate::Parse("max_abs <= 0.25", &mistake),
              .where = "bounds.yaml:1"});
  with_rule.pass.rules = rules;
  with_rule.pass.verify = true;
  for (const DiffOptions& options : std::vector<DiffOptions>{{}, with_job, with_rule}) {
    for (const Sides& sides : {Sides{&one, &four}, {&four, &two}, {&two, &one}}) {
      const Part alone = PartOf(sides, options, nullptr);
      ASSERT_TRUE(alone.status.ok()) << alone.status.message();
      for (const int size : {1, 2, 3, 5}) {
        SCOPED_TRACE(size);
        const auto parts = Shared(
            size, [&](int) { return sides; }, options);
        EXPECT_EQ(parts[0].report, alone.report);
        EXPECT_EQ(parts[0].rows, alone.rows);
        size_t compared = 0;
        for (const Part& part : parts) {
          // Shares differ by one pair a step, and by what process 0 does again: what is damaged.
          EXPECT_LE(part.compared, alone.compared / static_cast<size_t>(size) + 2 * kSteps);
          compared += part.compared;
        }
        EXPECT_GE(compared, alone.compared);
        EXPECT_LE(compared, alone.compared + kSteps);
      }
    }
  }
}

// A process that cannot read what the first one can, or sees another step: nothing of it is taken.
TEST(TeamTest, WhatOneProcessCannotReadTheFirstOneReads) {
  const FakeRun one = Sharded(1), four = Sharded(4), faulty = Sharded(4, true), shorter(4);
  const std::string alone = PartOf({&one, &four}, {}, nullptr).report;
  for (const FakeRun* seen : {&faulty, &shorter}) {
    const auto parts = Shared(3,
                              [&](int rank) {
                                return Sides{&one, rank == 1 ? seen : &four};
                              },
                              {});
    EXPECT_EQ(parts[0].report, alone);
  }
}

TEST(TeamTest, AllProcessesStopWhereNothingFits) {
  const FakeRun one = Sharded(1), four = Sharded(4);
  DiffOptions wrong_topology, wrong_map;
  wrong_topology.job = JobOptions{.topology_b = "tp=3"};
  wrong_map.job = JobOptions{};
  wrong_map.job->map = *NameMap::Parse(
      "sides: {x: {looks_like: '^nothing$'}, y: {looks_like: '^nothing else$'}}\n"
      "rules: [{name: nothing, to: something}]\n",
      "map.yaml");
  for (const DiffOptions& options : std::vector<DiffOptions>{wrong_topology, wrong_map}) {
    const Sides sides{&one, &four};
    const Status alone = PartOf(sides, options, nullptr).status;
    EXPECT_FALSE(alone.ok());
    const auto parts = Shared(
        3, [&](int) { return sides; }, options);
    EXPECT_EQ(parts[0].status.message(), alone.message());
  }
}

TEST(TeamTest, AnArchiveThatIsCutIsAnError) {
  PassDiff diff;
  diff.outcomes.resize(3);
  diff.outcomes[1].error = "pass.tdp: offset 4096: digest";
  Metrics metrics;
  metrics.elements = 5;
  metrics.cosine = 0.5;
  diff.outcomes[2].comparison.metrics = metrics;
  diff.only_a = {1, 2};
  diff.lost_b = {{.tensor = 3, .rank = 1, .how = LostCopy::How::kUnfinished},
                 {.tensor = 4, .rank = 2, .how = LostCopy::How::kSkipped, .ran = 1}};
  diff.rank_lists = {{0}, {0, 1}};
  diff.calls[7].path = "layer";
  diff.damage.push_back({"pass.tdp", 4096, "digest"});
  const std::string bytes = ArchivePassDiff(diff, nullptr);
  const auto whole = UnarchivePassDiff(bytes, nullptr);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->outcomes.size(), 3u);
  EXPECT_EQ(whole->outcomes[1].error, diff.outcomes[1].error);
  EXPECT_EQ(whole->outcomes[2].comparison.metrics->cosine, 0.5);
  EXPECT_EQ(whole->only_a, diff.only_a);
  ASSERT_EQ(whole->lost_b.size(), 2u);
  EXPECT_EQ(whole->lost_b[0].rank, 1);
  EXPECT_EQ(whole->rank_lists.at(whole->lost_b[1].ran), diff.rank_lists[1]);
  EXPECT_EQ(whole->calls.at(7).path, "layer");
  EXPECT_EQ(whole->damage.at(0).what, "digest");
  for (size_t cut = 0; cut < bytes.size(); cut += 7)
    EXPECT_FALSE(UnarchivePassDiff(std::string_view(bytes).substr(0, cut), nullptr).ok());
  diff.rank_lists.pop_back();
  EXPECT_FALSE(UnarchivePassDiff(ArchivePassDiff(diff, nullptr), nullptr).ok());
}

}  // namespace
}  // namespace tdump::compare
