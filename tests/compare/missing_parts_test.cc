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

  FakeRun Run() const {
    FakeRun run(kRanks);
    for (int32_t rank = 0; rank < kRanks; ++rank) {
      run.Place(rank, axis + "=" + std::to_string(rank));
      run.Pass(rank, 0).Module("fc", kInput, Part(rank));
      if (rank == lacking && !has_pass) continue;
      PassBuilder pass = run.Pass(rank, 1);
      pass.Module("first", kInput, kInput);
      if (rank != lacking) pass.Module("fc", kInput, Part(rank, rank == changed ? 5.0f : 0.0f));
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

}  // namespace
}  // namespace tdump::compare
