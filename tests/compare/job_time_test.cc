#include "compare/job_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "compare/report.h"
#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

using testing::ElementsAre;

constexpr Phase kForward = Phase::kForward, kBackward = Phase::kBackward;

TEST(JobTime, WhatComesAfterTheBackwardStaysBehindIt) {
  JobTime time;
  time.AddPass(0, {{1, kForward}, {3, kBackward}, {2, kForward}, {4, kForward}});
  EXPECT_LT(time.Of(0, kForward, 1), time.Of(0, kForward, 2));
  EXPECT_LT(time.Of(0, kForward, 2), time.Of(0, kBackward, 3));
  EXPECT_LT(time.Of(0, kBackward, 3), time.Of(0, kForward, 4));
  EXPECT_EQ(time.Of(0, kForward, 0), 0u);
}

TEST(JobTime, MicroBatchesOfOneStageComeOneAfterTheOther) {
  JobTime time;
  time.AddPass(0, {{1, kForward}, {2, kBackward}, {3, kForward}, {4, kBackward}});
  EXPECT_LT(time.Of(0, kForward, 1), time.Of(0, kBackward, 2));
  EXPECT_LT(time.Of(0, kBackward, 2), time.Of(0, kForward, 3));
  EXPECT_LT(time.Of(0, kForward, 3), time.Of(0, kBackward, 4));
}

TEST(JobTime, ARankThatCountsMoreKeepsItsTurn) {
  JobTime time;
  time.AddPass(0, {{1, kForward}, {2, kBackward}, {3, kForward}});
  time.AddPass(0, {{100, kForward}, {200, kBackward}, {300, kForward}});
  EXPECT_LT(time.Of(1, kForward, 100), time.Of(0, kBackward, 2));
  EXPECT_LT(time.Of(1, kBackward, 200), time.Of(0, kForward, 3));
  EXPECT_LT(time.Of(0, kForward, 3), time.Of(1, kForward, 300));
}

// Two micro-batches on two stages.
TEST(JobTime, StagesTakeTurns) {
  JobTime time(2);
  const std::vector<Moment> both = {{1, kForward}, {2, kBackward}, {3, kForward}, {4, kBackward}};
  std::vector<Moment> and_optimizer = both;
  and_optimizer.push_back({5, kForward});
  time.AddPass(0, and_optimizer);
  time.AddPass(1, and_optimizer);
  for (const uint64_t forward : {1, 3}) {
    for (const uint64_t backward : {2, 4}) {
      EXPECT_LT(time.Of(0, kForward, forward), time.Of(1, kForward, 1));
      EXPECT_LT(time.Of(1, kForward, forward), time.Of(1, kBackward, backward));
      EXPECT_LT(time.Of(1, kBackward, backward), time.Of(0, kBackward, 2));
      EXPECT_LT(time.Of(0, kBackward, backward), time.Of(1, kForward, 5));
      EXPECT_LT(time.Of(0, kBackward, backward), time.Of(0, kForward, 5));
    }
  }
}

// Two stages of two chunks each: part 2 is chunk 1 of stage 0.
TEST(JobTime, ChunksOfAStageTakeTheirTurns) {
  EXPECT_EQ(PipelinePart(0, 2, 1), 2u);
  JobTime time(2);
  time.AddPass(0, {{1, kForward}, {2, kForward}, {3, kBackward}, {4, kBackward}});
  time.AddPass(1, {{1, kForward}, {2, kForward}, {3, kBackward}, {4, kBackward}});
  const std::vector<uint64_t> turns = {time.Of(0, kForward, 1, 0),  time.Of(1, kForward, 1, 0),
                                       time.Of(0, kForward, 2, 1),  time.Of(1, kForward, 2, 1),
                                       time.Of(1, kBackward, 3, 1), time.Of(0, kBackward, 3, 1),
                                       time.Of(1, kBackward, 4, 0), time.Of(0, kBackward, 4, 0)};
  EXPECT_TRUE(std::is_sorted(turns.begin(), turns.end()));
}

TEST(JobTime, PartsBeyondTheLastTurnStayBeforeTheBackward) {
  EXPECT_LT(PipelineTurn(100000, kForward, false), PipelineTurn(100000, kBackward, false));
  EXPECT_LT(PipelineTurn(0, kBackward, false), PipelineTurn(0, kForward, true));
}

// One process against two: gradients, then what the optimizer made of them.
TEST(JobTime, RowsAreInTheOrderOfTheProgram) {
  const Tensor value = Vector<float>("float32", {1, 2});
  const auto training = [&](int32_t world) {
    FakeRun run(world);
    for (int32_t rank = 0; rank < world; ++rank) {
      PassBuilder pass = run.Pass(rank, 0);
      pass.Param("fc", "weight", value).Module("fc", value, value);
      for (const auto& [role, phase, arg] :
           {std::tuple(Role::kParamGrad, kBackward, "weight"),
            std::tuple(Role::kState, kForward, "weight.exp_avg")}) {
        pass.Param("fc", arg, value);
        pass.last()->key.role = role;
        pass.last()->key.phase = phase;
      }
    }
    return run;
  };
  std::vector<Role> roles;
  DiffOptions options;
  options.on_row = [&](const Row& row) { roles.push_back(row.key.role); };
  DiffOk(training(1), training(2), options);
  EXPECT_THAT(roles, ElementsAre(Role::kParam, Role::kInput, Role::kOutput, Role::kParamGrad,
                                 Role::kState));
}

}  // namespace
}  // namespace tdump::compare
