// An estimate of a job that ended before the steps that were asked about.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/env.h"
#include "launch/tdump_run/estimate.h"
#include "tests/coordinator/run_image.h"

namespace tdump::launch {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The table for a job that recorded its first steps, at most five, and ended after `ran`, when
// `steps` are asked about.
std::string Estimated(uint64_t ran, std::string_view steps) {
  const std::unique_ptr<Env> env = NewMemoryEnv();
  coordinator::test::ProcessImage process(env.get(), "run", {});
  for (uint64_t step = 0; step < std::min<uint64_t>(ran, 5); ++step) process.Pass(step);
  process.Exit(ran);
  io::RunRef run;
  run.path = "run";
  filters::Config config = filters::DefaultConfig();
  config.steps = *Spec::Parse(steps);
  const auto ranks = EstimateFromRun(env.get(), run, config);
  EXPECT_TRUE(ranks.ok()) << ranks.status().message();
  return EstimateText(*ranks, config, 1e9);
}

TEST(EstimateSteps, SaysWhatItStandsOnWhereTheJobWasShorter) {
  EXPECT_THAT(Estimated(3, "0-9"),
              HasSubstr("  note       stands on 2 steps: the job ended after 3 steps, so 7 of 10 "
                        "selected steps are not in it; they count as the last of those\n"));
  EXPECT_THAT(Estimated(1, "0-9"),
              HasSubstr("stands on 1 step: the job ended after 1 step, so 9 of 10 selected steps"));
  EXPECT_THAT(Estimated(12, "0-19:2"),
              HasSubstr("the job ended after 12 steps, so 4 of 10 selected steps"));
}

TEST(EstimateSteps, SaysNothingWhereTheJobHasThemAll) {
  EXPECT_THAT(Estimated(10, "0-9"), Not(HasSubstr("stands on")));
  EXPECT_THAT(Estimated(200, "0,100"), Not(HasSubstr("stands on")));
}

TEST(EstimateSteps, WithoutALastStepNamesWhatItSums) {
  EXPECT_THAT(Estimated(4, "all"),
              HasSubstr("; there is no last step, so this is what 2 steps take\n"));
  EXPECT_THAT(
      Estimated(1, "all"),
      HasSubstr(
          "; there is no last step, so this is what 1 step takes, the only one of the job\n"));
}

}  // namespace
}  // namespace tdump::launch
