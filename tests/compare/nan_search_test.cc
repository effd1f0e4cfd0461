#include "compare/nan_search.h"

#include <gmock/gmock.h>

#include <limits>

#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const Tensor kGood = Vector<float>("float32", {1, 2});
const Tensor kBad = Vector<float>("float32", {1, kNan});

// Steps of a first and a last module; from `from` on the last one returns NaN, from the step after
// it both do.
FakeRun RunOf(int32_t world, uint64_t steps, uint64_t from) {
  FakeRun run(world);
  for (uint64_t step = 0; step < steps; ++step) {
    for (int32_t rank = 0; rank < world; ++rank) {
      PassBuilder pass = run.Pass(rank, step);
      pass.Module("first", kGood, step > from ? kBad : kGood);
      pass.Module("last", kGood, step >= from ? kBad : kGood);
    }
  }
  return run;
}

std::optional<NanRecords> Find(const FakeRun& run, const DiffOptions& options = {}) {
  const CapturedRun side = run.side();
  return FindNan(side, DiffOk(run, run, options), options);
}

TEST(NanSearchTest, WhatEqualHashesHideIsFound) {
  const auto found = Find(RunOf(2, 4, 1));
  ASSERT_TRUE(found);
  EXPECT_EQ(NanNote(*found),
            "10 records hold NaN on both sides, first: rank 0, step 1, last, output");
  EXPECT_FALSE(Find(RunOf(2, 4, 9)));
}

// Only some passes are probed where there are many; what began between two of them is found.
TEST(NanSearchTest, ItGoesBackToWhereItBegan) {
  const auto found = Find(RunOf(1, 100, 41));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 41u);
  EXPECT_EQ(found->records, 1u + 2 * 58);
  // Some before it were not looked at.
  EXPECT_EQ(NanNote(*found),
            "at least 117 records hold NaN on both sides, first seen: rank 0, step 41, last, "
            "output");
  EXPECT_EQ(Find(RunOf(1, 100, 99))->step, 99u);
}

// Only the beginning of what is large is probed, and a step that is seen to have none before it
// could have some behind.
TEST(NanSearchTest, WhatWasNotLookedAtIsTold) {
  constexpr size_t kMany = 100'000;
  const auto at_least = [](const auto& fill) {
    FakeRun run(1);
    PassBuilder pass = run.Pass(0, 0);
    fill(&pass);
    run.Pass(0, 1).Module("last", kGood, kBad);
    const auto found = Find(run);
    EXPECT_TRUE(found);
    EXPECT_EQ(found ? found->records : 0, 1u);
    return found && found->at_least;
  };
  const Tensor large = Vector<float>("float32", std::vector<float>(kMany, 1));
  EXPECT_FALSE(at_least([](PassBuilder* pass) { pass->Module("fc", kGood, kGood); }));
  EXPECT_TRUE(at_least([&](PassBuilder* pass) { pass->Module("fc", kGood, large); }));
  EXPECT_TRUE(at_least([](PassBuilder* pass) {
    pass->Module("fc", kGood, kGood);
    pass->Damage(1);
  }));
  EXPECT_TRUE(at_least([](PassBuilder* pass) {  // known by its hash
    pass->Module("fc", kGood, kGood);
    pass->last()->payload.reset();
  }));
}

TEST(NanSearchTest, WhatCannotBeReadIsTold) {
  FakeRun run(1);
  PassBuilder pass = run.Pass(0, 0);
  pass.Module("fc", kGood, kBad);
  pass.Module("last", kGood, kBad);
  pass.Damage(2);
  EXPECT_EQ(NanNote(*Find(run)),
            "at least 1 record holds NaN on both sides, first seen: rank 0, step 0, last, output");
}

TEST(NanSearchTest, StatisticsTell) {
  FakeRun run(1);
  PassBuilder pass = run.Pass(0, 0);
  pass.Module("fc", kGood, kGood);
  pass.last()->payload.reset();
  pass.last()->parts_kept = kPartMeta | kPartHash | kPartStats;
  pass.last()->statistics = Statistics{.count = 2, .finite = 1, .nan = 1};
  EXPECT_EQ(NanNote(*Find(run)),
            "1 record holds NaN on both sides, first: rank 0, step 0, fc, output");
}

TEST(NanSearchTest, ANoteIsKnownAgain) {
  NanRecords found = {.records = 1, .rank = 0, .step = 3, .title = "fc, output"};
  EXPECT_TRUE(IsNanNote(NanNote(found)));
  found.at_least = true;
  found.records = 1200;
  EXPECT_TRUE(IsNanNote(NanNote(found)));
  EXPECT_FALSE(IsNanNote("captured with different configurations"));
  EXPECT_FALSE(IsNanNote("at least "));
}

TEST(NanSearchTest, OnlyWhatWasSelected) {
  DiffOptions options;
  options.pass.select = Named("first");
  EXPECT_FALSE(Find(RunOf(1, 2, 1), options));
}

// Values that were read need no search.
TEST(NanSearchTest, PairsThatWereReadAreCounted) {
  const auto run_of = [](float x, bool has_input) {
    FakeRun run(1);
    PassBuilder pass = run.Pass(0, 3);
    const std::vector<PassBuilder::Argument> in = {{"0", kBad}};
    const uint64_t call = pass.Begin("fc", "", has_input ? in : decltype(in)());
    pass.End(call, "fc", "", {{"", Vector<float>("float32", {x, kNan})}});
    return run;
  };
  const DiffReport report = DiffOk(run_of(3, false), run_of(3 + 0x1p-21f, false));
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.nan_on_both, 1u);
  const std::string note = "1 record holds NaN on both sides, first: rank 0, step 3, fc, output";
  EXPECT_THAT(report.notes, Contains(note));
  // The input is equal by hash, and was not read.
  EXPECT_THAT(DiffOk(run_of(3, true), run_of(3 + 0x1p-21f, true)).notes,
              Contains("at least 1 record holds NaN on both sides, first seen: rank 0, step 3, fc, "
                       "output"));
  EXPECT_THAT(DiffOk(RunOf(1, 1, 9), RunOf(1, 1, 9)).notes, Not(Contains(HasSubstr("NaN"))));
}

}  // namespace
}  // namespace tdump::compare
