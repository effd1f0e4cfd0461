// An estimate of a job that ended before the steps that were asked about.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "core/env.h"
#include "launch/tdump_run/estimate.h"
#include "tests/coordinator/run_image.h"

namespace tdump::launch {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The table for a job that recorded its first steps, at most five, and ended after `ran`, when
// `steps` are asked about.
std::string Estimated(uint64_t ran, std::string_view steps, uint64_t limit = 0,
                      std::optional<uint64_t> free_bytes = std::nullopt) {
  const std::unique_ptr<Env> env = NewMemoryEnv();
  coordinator::test::ProcessImage process(env.get(), "run", {});
  for (uint64_t step = 0; step < std::min<uint64_t>(ran, 5); ++step) process.Pass(step);
  process.Exit(ran);
  io::RunRef run;
  run.path = "run";
  filters::Config config = filters::DefaultConfig();
  config.steps = *Spec::Parse(steps);
  config.limit_bytes = limit;
  const auto ranks = EstimateFromRun(env.get(), run, config);
  EXPECT_TRUE(ranks.ok()) << ranks.status().message();
  return EstimateText(*ranks, config, {.copy = 1e9}, free_bytes);
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

// There is no sum of them: what is told is of the steps looked at, and how to scale it.
TEST(EstimateSteps, WithoutALastStepTellsWhatOneMoreAdds) {
  const std::string text = Estimated(4, "all");
  std::smatch found;
  ASSERT_TRUE(std::regex_search(
      text, found,
      std::regex(
          R"(  in all     .* \((\d+) bytes\) in 2 files for 2 steps only, manifests of .* beside )"
          R"(them; steps all has no last one, each further step adds .* \((\d+) bytes\); )"
          R"(--steps 0-N sums N \+ 1 steps\n)")))
      << text;
  EXPECT_EQ(std::stoull(found[1]), 2 * std::stoull(found[2]));  // equal steps
  EXPECT_THAT(Estimated(1, "all"), HasSubstr(" in 1 file for 1 step only, "));
}

TEST(EstimateSteps, WithoutALastStepTellsWhenTheLimitIsReached) {
  EXPECT_THAT(Estimated(4, "all", 1 << 20), HasSubstr(", to output.limit after about "));
  EXPECT_THAT(Estimated(4, "all", 1), Not(HasSubstr("after about")));  // it is in the first
  // Both lines know of a disk that has less room than the limit.
  const uint64_t free_bytes = (64 << 20) + 1;
  EXPECT_THAT(Estimated(4, "all", 1 << 20, free_bytes), Not(HasSubstr("after about")));
  EXPECT_THAT(Estimated(4, "all", 1 << 20, (64 << 20) + (1 << 19)),
              HasSubstr(", to the end of the disk after about "));
}

}  // namespace
}  // namespace tdump::launch
