#include "launch/tdump_run/estimate_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/env.h"

namespace tdump::launch {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Rates at which a megabyte takes 1 ms of copies, 0.25 ms of hashes and 2 ms of files.
constexpr Rates kRates = {.copy = 1e9, .hash = 4e9, .statistics = 1e9, .write = 5e8, .disk = 4e8};
// A step of 10 ms that keeps 4 MB: 4 ms of copies, 1 ms of hashes, 8 ms of files.
constexpr StepWork kKept = {.copied_bytes = 4'000'000, .file_bytes = 4'000'000};
constexpr DiskLoad kLoad = {.written = 4'000'000, .copied = 4'000'000};

StepCost Cost(const TimedStep& seen, const filters::Config& config = filters::DefaultConfig(),
              const Rates& rates = kRates, const DiskLoad& load = kLoad) {
  return CostOf(kKept, seen, load, rates, config);
}
std::string Text(const TimedStep& seen, const filters::Config& config = filters::DefaultConfig(),
                 const Rates& rates = kRates, const DiskLoad& load = kLoad) {
  return CostText(Cost(seen, config, rates, load), load, rates, config);
}

TEST(EstimateCost, IsBetweenAWriterWithACoreOfItsOwnAndOneThatTheJobWaitsFor) {
  const StepCost cost = Cost({.seconds = 0.01});
  EXPECT_NEAR(cost.plain, 0.01, 1e-9);
  EXPECT_NEAR(cost.low, 0.4, 1e-9);
  EXPECT_NEAR(cost.high, 1.3, 1e-9);
  EXPECT_FALSE(cost.disk_is_late);  // it takes them in the 10 ms that a step lasts
  const std::string text = Text({.seconds = 0.01});
  EXPECT_THAT(text, StartsWith("  slowdown   +40.0 % to +130.0 % of a captured step (10.0 ms "
                               "without): the first where the writer has a core to itself, "));
  EXPECT_THAT(text, HasSubstr("copies at 1.0 GB/s and 3 us a record, on the writer's hashes at 4.0 "
                              "GB/s and files at 500 MB/s; not what else runs here\n"));
  Rates known = kRates;
  known.cores = 2;
  EXPECT_THAT(Text({.seconds = 0.01}, filters::DefaultConfig(), known),
              HasSubstr("where the writer has a core to itself (2 cores here), the last where the "
                        "job waits for it\n"));
  EXPECT_THAT(text, EndsWith("  disk       takes 400 MB/s; the steps, without a pause between "
                             "them, give it 400 MB/s\n"));
}

// The same job looked at twice: hashes only, and the capture itself, in which it waited for the
// writer. Where the model is right about that both say the same; it lies in both ranges.
TEST(EstimateCost, IsTheSameFromAProbeOfHashesAndFromTheCaptureItself) {
  const TimedStep hashes{.work = {.copied_bytes = 4'000'000}, .seconds = 0.01 + 0.004 + 0.001};
  TimedStep capture{.work = kKept, .seconds = 0.01 + 0.004 + 0.001 + 0.008};
  for (const TimedStep& seen : {hashes, capture}) {
    EXPECT_NEAR(Cost(seen).high, 1.3, 1e-9);
    EXPECT_NEAR(Cost(seen).plain, 0.01, 1e-9);
    EXPECT_LE(Cost(seen).low, 0.4 + 1e-9);
  }
  capture.seconds += 0.005;  // and waited for room
  capture.blocked = 0.005;
  EXPECT_NEAR(Cost(capture).high, 1.3, 1e-9);
}

TEST(EstimateCost, OfStepsThatWereNotCapturedNothingIsTakenAway) {
  const TimedStep seen{.work = kKept, .seconds = 0.01 + 0.0065, .captured = 0.5};
  EXPECT_NEAR(Cost(seen).plain, 0.01, 1e-9);
}

TEST(EstimateCost, CountsStatisticsAndRecordsOfTheWriter) {
  const TimedStep seen{.seconds = 0.01};
  const StepWork asked{.records = 1000, .copied_bytes = 4'000'000, .statistics_bytes = 4'000'000};
  const StepCost cost = CostOf(asked, seen, {}, kRates, filters::DefaultConfig());
  EXPECT_NEAR(cost.low, 0.7, 1e-9);                     // 4 ms and 3
  EXPECT_NEAR(cost.high, 0.7 + 0.1 + 0.4 + 0.3, 1e-9);  // hashes, statistics, records
}

TEST(EstimateCost, WithoutAWriterThreadTheJobPaysForAll) {
  filters::Config config = filters::DefaultConfig();
  config.thread = false;
  EXPECT_NEAR(Cost({.seconds = 0.01}, config).low, 1.3, 1e-9);
  EXPECT_THAT(Text({.seconds = 0.01}, config),
              StartsWith("  slowdown   +130.0 % of a captured step (10.0 ms without): the job's"));
}

// 4 MB a step of 1 ms on a disk that takes them in 40: a step waits at most 20 ms of those.
TEST(EstimateCost, ADiskThatTakesLessSlowsStepsAsFarAsTheyMayWait) {
  Rates rates = kRates;
  rates.disk = 1e8;
  filters::Config config = filters::DefaultConfig();
  const TimedStep seen{.seconds = 0.001};
  EXPECT_TRUE(Cost(seen, config, rates).disk_is_limit);
  EXPECT_THAT(Text(seen, config, rates), HasSubstr("job waits for it or for the disk\n"));
  EXPECT_NEAR(Cost(seen, config, rates).high, 20, 1e-9);
  EXPECT_THAT(
      Text(seen, config, rates),
      HasSubstr("  disk       takes 100 MB/s; the steps, without a pause between them, give it 4.0 "
                "GB/s: once the arena is full a step waits for up to 20 % of its time or 20 ms, "
                "whichever is more (memory.max_block), and what finds no room then is kept as "
                "statistics\n"));
  config.max_block_percent = 100;
  EXPECT_NEAR(Cost(seen, config, rates).high, 39, 1e-9);
  EXPECT_THAT(Text(seen, config, rates), HasSubstr("the job runs at the speed of the disk"));
  config.full_arena = filters::FullArena::kDrop;
  EXPECT_NEAR(Cost(seen, config, rates).high, 13, 1e-9);
  EXPECT_THAT(Text(seen, config, rates), HasSubstr("keeps its metadata only"));
}

TEST(EstimateCost, SaysWhatIsMissingWhereNoFileCouldBeTimed) {
  const std::string text = Text({.seconds = 0.01}, filters::DefaultConfig(), {.copy = 1e9});
  EXPECT_THAT(text,
              AllOf(HasSubstr("+40.0 % of a captured step"),
                    HasSubstr("what the writer takes is not in it"), Not(HasSubstr("disk "))));
}

// The same disk, and an arena of 78 MB: of the 4 MB of a step of 1 ms 0.1 MB are written meanwhile.
TEST(EstimateCost, ADiskIsNotWaitedForWhereTheStepsDoNotFillTheArena) {
  Rates rates = kRates;
  rates.disk = 1e8;
  const TimedStep seen{.seconds = 0.001};
  DiskLoad load{.written = 4'000'000, .copied = 4'000'000, .steps = 20, .arenas = 78'000'000};
  const filters::Config config = filters::DefaultConfig();
  EXPECT_NEAR(Cost(seen, config, rates, load).full_after, 20, 1e-9);
  EXPECT_NEAR(Cost(seen, config, rates, load).high, 13, 1e-9);  // the writer
  EXPECT_THAT(Text(seen, config, rates, load),
              AllOf(HasSubstr("the job waits for it\n"),
                    EndsWith("give it 4.0 GB/s: what it has not taken yet has room in the arena "
                             "(74 MiB), no step waits\n")));
  for (const uint64_t steps : {21, 0}) {  // 0: without end
    load.steps = steps;
    EXPECT_NEAR(Cost(seen, config, rates, load).high, 20, 1e-9);
    EXPECT_THAT(
        Text(seen, config, rates, load),
        HasSubstr("give it 4.0 GB/s: the arena (74 MiB) is full after 20 steps; then a step "
                  "waits for up to 20 % of its time or 20 ms, "));
  }
}

// 480 us, of which 200 us are copies and 50 us hashes. Of the 4 MB that are asked for each figure
// is known, of the share that they are of a step hardly more than that there is one.
TEST(EstimateCost, TellsTimesWhereAStepIsTooShortForAShare) {
  const TimedStep seen{.work = {.copied_bytes = 200'000}, .seconds = 480e-6};
  EXPECT_NEAR(Cost(seen).plain, 230e-6, 1e-9);
  EXPECT_GT(Cost(seen).too_short, 0);
  const TimedStep shorter{.work = {.copied_bytes = 200'000}, .seconds = 400e-6};
  EXPECT_NEAR(Cost(shorter).plain, 150e-6, 1e-9);
  EXPECT_THAT(Text(shorter),
              StartsWith("  slowdown   +4.0 ms to +13.0 ms a captured step, too short to tell its "
                         "share (of the 400 us that one took here most was tdump's): the first "));
  const TimedStep longer{.work = {.copied_bytes = 4'000'000}, .seconds = 0.006};
  EXPECT_NEAR(Cost(longer).plain, 0.001, 1e-9);
  EXPECT_EQ(Cost(longer).too_short, 0);  // long enough for the rates
}

}  // namespace
}  // namespace tdump::launch
