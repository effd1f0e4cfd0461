// Pairs under one name that equal keys do not make: by argument and by order of calls, without a
// map, and said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compare/diff.h"
#include "tests/compare/job_runs.h"

namespace tdump::compare {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A takes its input by position and returns a tuple.
FakeRun Tuple(int32_t world, const Tensor& out) {
  FakeRun run(world);
  for (int32_t rank = 0; rank < world; ++rank) {
    PassBuilder pass = run.Pass(rank, 0);
    pass.End(pass.Begin("fc", "", {{"0", kInput}}), "fc", "", {{"0", out}});
  }
  return run;
}

FakeRun Bare(int32_t world, const Tensor& out) {
  FakeRun run(world);
  for (int32_t rank = 0; rank < world; ++rank) {
    PassBuilder pass = run.Pass(rank, 0);
    pass.End(pass.Begin("fc", "", {{"kwargs.x", kInput}}), "fc", "", {{"", out}});
  }
  return run;
}

// Of two ranks each, and of one against two, whose ranks are put together.
TEST(SameNames, ATupleAndABareOutputAPositionAndAKeyword) {
  for (const int32_t world_a : {1, 2}) {
    const DiffReport same = DiffOk(Tuple(world_a, kWhole), Bare(2, kWhole));
    EXPECT_EQ(same.overall, Overall::kSame) << world_a;
    EXPECT_EQ(same.job.has_value(), world_a == 1);
    EXPECT_EQ(same.counts.bits_equal, same.counts.paired);
    EXPECT_EQ(same.counts.paired, 2u * static_cast<uint64_t>(world_a));
    EXPECT_EQ(same.counts.unpaired_a + same.counts.unpaired_b, 0u);
    const std::string count = world_a == 1 ? "(2 pairs)" : "(4 pairs)";
    EXPECT_THAT(same.notes, ElementsAre("paired by argument " + count +
                                        ", first A's fc@input#0 with B's fc@input#kwargs.x"));
    EXPECT_THAT(Joined(Text(same)), HasSubstr("note paired by argument " + count));

    DiffOptions options;
    std::vector<std::string> rows;
    options.on_row = [&](const Row& row) { rows.push_back(RowToJson(row)); };
    const Tensor other = Matrix(2, 4, {1, 2, 3, 4, 5, 6, 7, 9});
    const DiffReport differs = DiffOk(Tuple(world_a, kWhole), Bare(2, other), options);
    EXPECT_EQ(differs.overall, Overall::kDiffers);
    EXPECT_EQ(differs.counts.failing, static_cast<uint64_t>(world_a));
    ASSERT_TRUE(differs.origin);
    EXPECT_EQ(differs.origin->name, "fc");
    EXPECT_THAT(rows, Contains(AllOf(HasSubstr("\"key\":\"fc@output#\""),
                                     HasSubstr("paired by argument: A's fc@output#0 with B's "
                                               "fc@output#"))));
  }
}

TEST(SameNames, CallsInTheirOrderHoweverTheyAreCounted) {
  FakeRun calls(1), micros(1), fewer(1);
  PassBuilder in_calls = calls.Pass(0, 0), in_micros = micros.Pass(0, 0),
              in_fewer = fewer.Pass(0, 0);
  for (uint32_t i = 0; i < 3; ++i) {
    const Tensor value = Matrix(1, 1, {static_cast<float>(i)});
    in_calls.Tap("t", "v", value);
    in_micros.Tap("t", "v", value);
    in_micros.last()->key.call = 0;
    in_micros.last()->key.micro = i;
    if (i < 2) in_fewer.Tap("t", "v", value);
  }
  const DiffReport same = DiffOk(calls, micros);
  EXPECT_EQ(same.overall, Overall::kSame);
  EXPECT_EQ(same.counts.paired, 3u);
  EXPECT_THAT(same.notes, Contains(HasSubstr("paired by order of calls (2 pairs)")));
  // Which call is missing is not known.
  const DiffReport missing = DiffOk(fewer, micros);
  EXPECT_EQ(missing.overall, Overall::kDiffers);
  EXPECT_EQ(missing.counts.unpaired_b, 2u);
}

// Other names are other things until a map says that they are not.
TEST(SameNames, OtherNamesStayAlone) {
  for (const int32_t world_b : {1, 2}) {
    FakeRun a(1), b(world_b);
    a.Pass(0, 0).Module("fc", kInput, kWhole).Module("norm_a", kInput, kWhole);
    for (int32_t rank = 0; rank < world_b; ++rank)
      b.Pass(rank, 0).Module("fc", kInput, kWhole).Module("norm_b", kInput, kWhole);
    const DiffReport report = DiffOk(a, b);
    EXPECT_EQ(report.overall, Overall::kDiffers);
    EXPECT_EQ(report.counts.paired, 2u);
    EXPECT_EQ(report.counts.unpaired_a + report.counts.unpaired_b, 4u);
    EXPECT_THAT(report.notes, IsEmpty());
  }
}

// What a weight is called is its name, no argument: scale is not shift because it is as large.
TEST(SameNames, WeightsArePairedByTheirNames) {
  for (const int32_t world_b : {1, 2}) {
    FakeRun a(1), b(world_b);
    a.Pass(0, 0).Param("norm", "scale", kInput).Module("norm", kInput, kWhole);
    for (int32_t rank = 0; rank < world_b; ++rank)
      b.Pass(rank, 0).Param("norm", "shift", kInput).Module("norm", kInput, kWhole);
    const DiffReport report = DiffOk(a, b);
    EXPECT_EQ(report.overall, Overall::kDiffers);
    EXPECT_EQ(report.counts.unpaired_a, 1u);
    EXPECT_EQ(report.counts.unpaired_b, 1u);
    EXPECT_THAT(report.notes, IsEmpty());
  }
}

}  // namespace
}  // namespace tdump::compare
