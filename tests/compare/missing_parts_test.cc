// Jobs of which one rank left a step unfinished, or skipped a module, on both sides: what the
// others hold is no whole, and is compared as it lies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/compare/job_runs.h"

namespace tdump::compare {
namespace {

using testing::HasSubstr;

constexpr int32_t kRanks = 4;

Tensor Part(int32_t rank, float change = 0) {
  const auto first = static_cast<float>(10 * rank);
  return Matrix(2, 2, {first + 1, first + 2, first + 3, first + 4 + change});
}

struct Job {
  int32_t lacking = 3;   // this rank lacks `fc` in step 1; -1: none
  bool has_pass = true;  // unfinished, of step 1
  int32_t changed = -1;  // of this rank `fc` differs there
  std::string axis = "tp";
  // What ranks keep of `fc` in step 1, in turn; empty: all of it.
  std::vector<Tensor (*)(Tensor)> keeps = {};

  FakeRun Run() const {
    FakeRun run(kRanks);
    for (int32_t rank = 0; rank < kRanks; ++rank) {
      run.Place(rank, axis + "=" + std::to_string(rank));
      run.Pass(rank, 0).Module("fc", kInput, Part(rank));
      if (rank == lacking && !has_pass) continue;
      PassBuilder pass = run.Pass(rank, 1);
      pass.Module("first", kInput, kInput);
      Tensor part = Part(rank, rank == changed ? 5.0f : 0.0f);
      if (!keeps.empty()) part = keeps[static_cast<size_t>(rank) % keeps.size()](std::move(part));
      if (rank != lacking) pass.Module("fc", kInput, part);
      if (rank == lacking) run.MakePart(rank);
    }
    return run;
  }
};

DiffReport DiffJobs(const Job& a, const Job& b, const std::string& dims = "") {
  DiffOptions options = dims.empty() ? DiffOptions{} : WithDims("fc@output", dims);
  if (dims.empty()) options.job = JobOptions{};
  return DiffOk(a.Run(), b.Run(), options);
}

TEST(MissingParts, OfBothSidesAreNoDifference) {
  for (const char* dims : {"", "b h[tp]"}) {
    for (const bool has_pass : {true, false}) {
      const Job job = {.has_pass = has_pass};
      const DiffReport report = DiffJobs(job, job, dims);
      EXPECT_EQ(report.overall, Overall::kSame) << dims << "\n" << Text(report);
    }
  }
  const Job job;
  EXPECT_THAT(
      Joined(Text(DiffJobs(job, job, "b h[tp]"))),
      HasSubstr(
          "what ranks hold is compared one by one, for others lack their parts on both sides"));
}

TEST(MissingParts, WhatTheOtherRanksHoldIsCompared) {
  for (const char* dims : {"", "b h[tp]"}) {
    const DiffReport report = DiffJobs({}, {.changed = 2}, dims);
    EXPECT_EQ(report.overall, Overall::kDiffers) << dims;
    ASSERT_TRUE(report.origin) << dims;
    EXPECT_EQ(report.origin->name, "fc");
    EXPECT_EQ(report.origin->rank, 2) << dims;
  }
}

// Parts that are taken for copies, for the others are missing, and of which little is known.
TEST(MissingParts, WhatTheOtherRanksHoldIsComparedWithoutItsValues) {
  using Keeps = std::vector<Tensor (*)(Tensor)>;
  for (const Keeps& keeps :
       {Keeps{WithStatisticsAlone}, Keeps{WithHashAlone, WithStatisticsAlone}}) {
    for (const char* dims : {"", "b h[tp]"}) {
      const Job right = {.keeps = keeps}, wrong = {.changed = 2, .keeps = keeps};
      const DiffReport same = DiffJobs(right, right, dims);
      EXPECT_EQ(same.overall, Overall::kSame) << dims << Text(same);
      for (const bool is_a : {false, true}) {
        const DiffReport report = DiffJobs(is_a ? wrong : right, is_a ? right : wrong, dims);
        EXPECT_EQ(report.overall, Overall::kDiffers) << dims << is_a;
        ASSERT_EQ(report.failing.size(), 1u) << dims << is_a;
        EXPECT_EQ(report.failing[0].rank_b, 2) << dims << is_a;
      }
    }
  }
}

// One side kept the values, the other one what tells nothing of whether parts are copies.
TEST(MissingParts, BothSidesTellWhetherTheyAreCopies) {
  const Job values, less = {.keeps = {WithHashAlone, WithStatisticsAlone}};
  for (const bool is_a : {false, true}) {
    const DiffReport report = DiffJobs(is_a ? less : values, is_a ? values : less);
    EXPECT_EQ(report.overall, Overall::kSame) << is_a << Text(report);
  }
}

TEST(MissingParts, OfOneSideAreMissed) {
  for (const char* dims : {"", "b h[tp]"}) {
    EXPECT_EQ(DiffJobs({.lacking = -1}, {}, dims).overall, Overall::kDiffers) << dims;
    EXPECT_EQ(DiffJobs({}, {.lacking = -1}, dims).overall, Overall::kDiffers) << dims;
    EXPECT_EQ(DiffJobs({.lacking = 2}, {.lacking = 3}, dims).overall, Overall::kDiffers) << dims;
  }
}

// Dims that contradict what ranks hold, of a tensor that other stages need not have.
TEST(MissingParts, DimsThatDoNotFitStayAnError) {
  FakeRun run(kRanks);
  for (int32_t rank = 0; rank < kRanks; ++rank) {
    run.Place(rank, "pp=" + std::to_string(rank));
    PassBuilder pass = run.Pass(rank, 0);
    pass.Module("first", kInput, kInput);
    if (rank < 2) pass.Module("fc", kInput, Part(rank));
  }
  const DiffReport report = DiffOk(run, run, WithDims("fc@output", "b h[pp]"));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_THAT(Joined(Text(report)), HasSubstr("missing shards at pp "));
}

// Of step 1 rank 3 has nothing on both sides: it lies on another stage than `fc`.
TEST(MissingParts, RanksOfOtherStagesLackNothing) {
  FakeRun run(kRanks);
  for (int32_t rank = 0; rank < kRanks; ++rank) {
    run.Place(rank, "pp=" + std::to_string(rank / 2) + " tp=" + std::to_string(rank % 2));
    for (const uint64_t step : {0, 1}) {
      if (step == 1 && rank == 3) continue;
      PassBuilder pass = run.Pass(rank, step);
      pass.Module("first", kInput, kInput);
      if (rank < 2 && step == 1) pass.Module("fc", kInput, Part(rank));
    }
  }
  const DiffReport report = DiffOk(run, run, WithDims("fc@output", "b h[pp]"));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_THAT(Joined(Text(report)), HasSubstr("missing shard at pp 1 (ranks 2-3)"));
}

}  // namespace
}  // namespace tdump::compare
