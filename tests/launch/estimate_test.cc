#include "launch/tdump_run/estimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/env.h"
#include "tests/coordinator/run_image.h"

namespace tdump::launch {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The first step takes twice the bytes of a later one, of which there are three.
RankEstimate Rank(int32_t rank, int32_t world, uint64_t bytes) {
  RankEstimate estimate;
  estimate.rank = rank;
  estimate.world = world;
  estimate.steps.resize(2);
  estimate.steps[0].work = {.records = 5, .copied_bytes = bytes, .file_bytes = 2 * bytes};
  estimate.steps[0].seen.seconds = 0.5;
  estimate.steps[1].work = {.records = 4, .copied_bytes = bytes, .file_bytes = bytes};
  estimate.later_steps = 2;
  estimate.manifest_bytes = 512;
  return estimate;
}

TEST(Estimate, SumsRanksAndNamesTheLargest) {
  const filters::Config config = filters::DefaultConfig();
  const std::string text =
      EstimateText({Rank(0, 3, 1024), Rank(2, 3, 2048)}, config, {.copy = 1024 * 1024});
  EXPECT_THAT(text, HasSubstr("estimate for steps 0-9 on 2 ranks\n"));
  EXPECT_THAT(text, HasSubstr("largest    rank 2: 10 KiB\n"));  // 2 + 1 + 1 + 1 times 2,048
  EXPECT_THAT(
      text,
      HasSubstr("(15360 bytes) in 8 files, manifests of 1.0 KiB beside them\n"));  // 5 * 3,072
  EXPECT_THAT(text, HasSubstr("without rank 1, which"));
  EXPECT_THAT(text, HasSubstr("+0.4 % of a captured step"));  // 2 ms of 0.5 s
  EXPECT_THAT(text, Not(HasSubstr("compression")));
}

TEST(Estimate, TheSlowdownIsOfTheSecondStepWithoutTheHashesOfTheRunThatWasLookedAt) {
  RankEstimate rank = Rank(0, 1, 1024);
  TimedStep& seen = rank.steps[1].seen;
  const auto text = [&] { return EstimateText({rank}, filters::DefaultConfig(), {.copy = 1e5}); };
  seen.seconds = 0.25;  // of a step that is warm
  EXPECT_THAT(text(), HasSubstr("+4.1 % of a"));
  seen.work.copied_bytes = 15'000;  // 0.15 s of it
  EXPECT_THAT(text(), HasSubstr("+10.3 % of a"));
  rank.steps[1].work.records = 50'000;  // 0.15 s
  EXPECT_THAT(text(), HasSubstr("+160.2 % of a"));
  seen.work.records = 16'666;  // 0.05 s of it
  EXPECT_THAT(text(), HasSubstr("+320.5 % of a"));
  rank.steps[1].work.records = 4;
  seen.work.copied_bytes = 1'000'000;  // more than it took: the copies were timed too slow
  EXPECT_THAT(text(), HasSubstr("+41.0 % of a"));
}

TEST(Estimate, LooksAtNoMoreStepsThanAreSelected) {
  const std::unique_ptr<Env> env = NewMemoryEnv();
  coordinator::test::ProcessImage process(env.get(), "run", {});
  process.Tensors(0, coordinator::test::OneOfEach({"a"}))
      .Tensors(1, coordinator::test::OneOfEach({"a", "b"}))
      .Tensors(2, coordinator::test::OneOfEach({"a", "b", "c"}))
      .Exit(3);
  io::RunRef run;
  run.path = "run";
  filters::Config config = filters::DefaultConfig();
  const auto steps = [&](const Spec& selected) {
    config.steps = selected;
    auto ranks = EstimateFromRun(env.get(), run, config);
    EXPECT_TRUE(ranks.ok() && ranks->size() == 1) << ranks.status().message();
    return (*ranks)[0];
  };
  RankEstimate one = steps(*Spec::Parse("0"));
  ASSERT_EQ(one.steps.size(), 1u);
  EXPECT_EQ(one.later_steps, 0u);
  EXPECT_EQ(one.last_step, 0u);
  EXPECT_FALSE(one.open_at_end);
  RankEstimate many = steps(*Spec::Parse("0-9"));
  ASSERT_EQ(many.steps.size(), 2u);
  EXPECT_EQ(many.steps[1].work.records, 2u);
  EXPECT_EQ(many.later_steps, 8u);
  EXPECT_GT(many.manifest_bytes, 0u);
}

TEST(Estimate, TheStepsAfterTheSecondSelectedOneAreTimedWithIt) {
  filters::Config config = filters::DefaultConfig();
  const auto looked_at = [&](std::string_view steps) {
    config.steps = *Spec::Parse(steps);
    return ProbeOptions({}, config, "d").settings.at(0).second;
  };
  EXPECT_EQ(looked_at("all"), "'0-4'");
  EXPECT_EQ(looked_at("3,7,9"), "'3,7-10'");
  EXPECT_EQ(looked_at("4"), "'4-7'");
  EXPECT_EQ(looked_at("none"), "'none'");
}

TEST(Estimate, OfManyRanksShowsTheExtremes) {
  std::vector<RankEstimate> ranks;
  for (int32_t rank = 0; rank < 12; ++rank) ranks.push_back(Rank(rank, 12, 4096u << (rank % 7)));
  const std::string text = EstimateText(ranks, filters::DefaultConfig(), {.copy = 1e9});
  EXPECT_THAT(text, HasSubstr("  smallest\n  rank 0 "));
  EXPECT_THAT(text, HasSubstr("  largest\n  rank 6 "));
  EXPECT_THAT(text, Not(HasSubstr("  rank 3 ")));
}

TEST(Estimate, SaysWhatTheOutputOptionsChange) {
  filters::Config config = filters::DefaultConfig();
  config.layout = filters::OutputLayout::kPacked;
  config.compress = Compression::kZstd;
  config.limit_bytes = 4096;
  const std::vector<RankEstimate> ranks = {Rank(0, 1, 1024)};
  std::string text = EstimateText(ranks, config, {.copy = 1e9});
  EXPECT_THAT(text, HasSubstr("(5120 bytes) in 1 file, manifests of 512 B beside them\n"));
  EXPECT_THAT(text, HasSubstr("4.0 KiB: writing stops when that is nearly reached, in step 2\n"));
  EXPECT_THAT(text, HasSubstr("payloads count as they are before compression\n"));
  config.ring = true;
  EXPECT_THAT(EstimateText(ranks, config, {.copy = 1e9}),
              HasSubstr("4.0 KiB: the oldest steps go when that is nearly reached, in step 2\n"));
  config.limit_bytes = 5462;  // 341 of them are for metadata
  EXPECT_THAT(EstimateText(ranks, config, {.copy = 1e9}),
              HasSubstr("limit      output.limit 5.3 KiB\n"));
}

// What more room would have kept is a loss; what the configuration leaves out is none.
TEST(Estimate, GathersWhatWasLostOfTheStepsLookedAt) {
  const std::unique_ptr<Env> env = NewMemoryEnv();
  coordinator::test::ProcessImage process(env.get(), "run", {});
  coordinator::test::ProcessImage files(env.get(), "other", {});
  files.Pass(0).Pass(1).Pass(2);
  process.Pass(0);
  for (const uint64_t step : {1, 2}) {
    io::PassDoneSection done;
    done.ordinal = done.local_step = step;
    done.file = "pass0000" + std::to_string(step) + ".tdp";
    const auto bytes = ReadFile(env.get(), files.directory() + "/" + done.file, 1 << 20);
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    done.file_bytes = bytes->size();
    const std::string path = process.directory() + "/" + done.file;
    ASSERT_TRUE(WriteFileAtomically(env.get(), path, *bytes, 0600).ok());
    for (int reason = 1; reason <= static_cast<int>(SkipReason::kRewritten); ++reason)
      done.not_kept.push_back({static_cast<uint8_t>(reason), 10 * step});
    process.Add(done);
  }
  process.Exit(3);
  io::RunRef run;
  run.path = "run";
  const auto ranks = EstimateFromRun(env.get(), run, filters::DefaultConfig());
  ASSERT_TRUE(ranks.ok()) << ranks.status().message();
  std::map<SkipReason, uint64_t> expected;  // of step 1; step 2 was not looked at
  for (const SkipReason reason :
       {SkipReason::kMemoryLimit, SkipReason::kDiskLimit, SkipReason::kDiskError,
        SkipReason::kPassEnded, SkipReason::kCopyFailed, SkipReason::kStagingLimit,
        SkipReason::kDeviceError})
    expected[reason] = 10;
  EXPECT_EQ((*ranks)[0].lost, expected);
}

TEST(Estimate, IsOfOneGenerationOfARun) {
  const std::unique_ptr<Env> env = NewMemoryEnv();
  for (const uint32_t generation : {0u, 1u}) {
    const std::vector<std::string> modules =
        generation == 0 ? std::vector<std::string>{"a"} : std::vector<std::string>{"a", "b"};
    coordinator::test::ProcessImage process(env.get(), "run",
                                            {.generation = generation, .pid = 10 + generation});
    process.Tensors(0, coordinator::test::OneOfEach(modules)).Exit(1);
  }
  filters::Config config = filters::DefaultConfig();
  io::RunRef run;
  run.path = "run";
  const auto newest = EstimateFromRun(env.get(), run, config);
  ASSERT_TRUE(newest.ok()) << newest.status().message();
  ASSERT_EQ(newest->size(), 1u);
  EXPECT_EQ((*newest)[0].steps[0].work.records, 2u);
  run.generation = 0;
  const auto first = EstimateFromRun(env.get(), run, config);
  ASSERT_TRUE(first.ok()) << first.status().message();
  ASSERT_EQ(first->size(), 1u);
  EXPECT_EQ((*first)[0].steps[0].work.records, 1u);
}

}  // namespace
}  // namespace tdump::launch
