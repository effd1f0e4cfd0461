// Whole diffs in which the capture itself says how ranks share a tensor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "compare/diff.h"
#include "tests/compare/job_runs.h"

namespace tdump::compare {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Key;

// Ranks whose output of fc says itself how it is shared.
FakeRun Annotated(const std::vector<Tensor>& outs, const std::function<void(io::Record*)>& say) {
  FakeRun run(static_cast<int32_t>(outs.size()));
  for (size_t rank = 0; rank < outs.size(); ++rank) {
    PassBuilder pass = run.Pass(static_cast<int32_t>(rank), 0);
    pass.Module("fc", kInput, outs[rank]);
    say(pass.last());
  }
  return run;
}
FakeRun WithRecordDims(const std::vector<Tensor>& outs, const std::string& dims) {
  return Annotated(outs, [&](io::Record* record) { record->dims = dims; });
}

// Rank 0 has columns 0 and 2: nothing that shapes suggest.
const Tensor kEven = Matrix(2, 2, {1, 3, 5, 7}), kOdd = Matrix(2, 2, {2, 4, 6, 8});

TEST(ResolveLayout, WhatTheCaptureSaysOfDimsHolds) {
  EXPECT_EQ(DiffOk(OneRank(kWhole), Ranks({kEven, kOdd})).overall, Overall::kDiffers);
  const FakeRun striped = WithRecordDims({kEven, kOdd}, "b h[tp:striped]");
  const DiffReport report = DiffOk(OneRank(kWhole), striped);
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.bits_equal, 2u);
  EXPECT_THAT(report.job->how_b, Contains(Key(HasSubstr("(annotated)"))));
  // Also where the data would say something else.
  const DiffReport wrong =
      DiffOk(OneRank(kWhole), WithRecordDims({kLeft, kRight}, "b h[tp:striped]"));
  EXPECT_EQ(wrong.overall, Overall::kDiffers);
  EXPECT_EQ(wrong.counts.failing, 1u);
  // What the user says goes before it.
  EXPECT_EQ(DiffOk(OneRank(kWhole), WithRecordDims({kLeft, kRight}, "b h[tp:striped]"),
                   WithDims("fc@output", "b h[tp]"))
                .overall,
            Overall::kSame);
}

TEST(ResolveLayout, AnAnnotationThatContradictsTheShapesFailsItsOperator) {
  for (const char* dims : {"b=3 h[tp]", "b h[tp:sizes=3+1]"}) {
    const DiffReport report = DiffOk(OneRank(kWhole), WithRecordDims({kLeft, kRight}, dims));
    EXPECT_EQ(report.overall, Overall::kDiffers) << dims;
    EXPECT_EQ(report.counts.paired, 2u);
    EXPECT_EQ(report.counts.unresolved, 1u) << dims;
    EXPECT_EQ(report.counts.bits_equal, 1u);  // its input
    ASSERT_EQ(report.failing.size(), 1u);
    EXPECT_THAT(report.failing[0].comparison.notes.back(),
                HasSubstr(std::string("'") + dims + "' (annotated)"));
  }
}

TEST(ResolveLayout, PlacementsOfADTensorAreFollowed) {
  // Four ranks of a mesh whose first axis, the slowest, is dp: ranks 0 and 2 hold the left half.
  const auto run = [](const std::vector<Tensor>& outs, const char* placements) {
    return Annotated(outs, [&](io::Record* record) {
      record->placements = placements;
      record->mesh = "DeviceMesh((dp=2, tp=2), 'cuda', stride=(2, 1))";
      record->global_shape = {2, 4};
    });
  };
  const char* columns = "(Replicate(), Shard(dim=1))";
  const DiffReport report = DiffOk(OneRank(kWhole), run({kLeft, kRight, kLeft, kRight}, columns));
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.bits_equal, 2u);
  EXPECT_THAT(report.job->how_b, Contains(Key(HasSubstr("(annotated)"))));
  // Another order of the same shards contradicts the mesh.
  EXPECT_EQ(DiffOk(OneRank(kWhole), run({kLeft, kLeft, kRight, kRight}, columns)).overall,
            Overall::kDiffers);
  // The copy of one dp rank is wrong.
  const DiffReport wrong =
      DiffOk(OneRank(kWhole), run({kLeft, kRight, kLeft, kWrongRight}, columns));
  EXPECT_EQ(wrong.overall, Overall::kDiffers);
  ASSERT_TRUE(wrong.origin);
  EXPECT_EQ(wrong.origin->rank, 3);
  // The mean over dp.
  const Tensor less = Matrix(2, 2, {0, 1, 4, 5}), more = Matrix(2, 2, {2, 3, 6, 7});
  EXPECT_EQ(
      DiffOk(OneRank(kWhole), run({less, kRight, more, kRight}, "(Partial(avg), Shard(dim=1))"))
          .overall,
      Overall::kSame);
  EXPECT_EQ(
      DiffOk(OneRank(kWhole), run({less, kRight, more, kRight}, "(Partial(sum), Shard(dim=1))"))
          .overall,
      Overall::kDiffers);
  // Rows over dp, sums over tp.
  const Tensor top = Matrix(1, 4, {1, 1, 1, 1}), of_top = Matrix(1, 4, {0, 1, 2, 3});
  const Tensor bottom = Matrix(1, 4, {5, 5, 5, 5}), of_bottom = Matrix(1, 4, {0, 1, 2, 3});
  EXPECT_EQ(
      DiffOk(OneRank(kWhole), run({top, of_top, bottom, of_bottom}, "(Shard(dim=0), Partial(sum))"))
          .overall,
      Overall::kSame);
}

// Experts that got 3, 0 and 1 tokens.
TEST(ResolveLayout, ARankMayHoldNoTokens) {
  const Tensor tokens = Matrix(4, 2, {1, 2, 3, 4, 5, 6, 7, 8});
  const auto ranks = [](float last) {
    return Ranks({Matrix(3, 2, {1, 2, 3, 4, 5, 6}), Matrix(0, 2, {}), Matrix(1, 2, {7, last})});
  };
  const DiffOptions options = WithDims("fc@output", "t[ep] h");
  const DiffReport report = DiffOk(OneRank(tokens), ranks(8), options);
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.bits_equal, 2u);
  const DiffReport wrong = DiffOk(OneRank(tokens), ranks(9), options);
  ASSERT_TRUE(wrong.origin);
  EXPECT_EQ(wrong.origin->rank, 2);
  EXPECT_THAT(wrong.origin->row->comparison.metrics->worst.position, ElementsAre(3, 1));
}

// Context parallel: of 8 pieces rank i of 4 holds pieces i and 7 - i.
TEST(ResolveLayout, ZigzagOfContextParallelRanksIsUndone) {
  const auto column = [](const std::vector<float>& values) {
    return Matrix(static_cast<int64_t>(values.size()), 1, values);
  };
  const Tensor whole = column({0, 10, 20, 30, 40, 50, 60, 70});
  const std::vector<Tensor> shards = {column({0, 70}), column({10, 60}), column({20, 50}),
                                      column({30, 40})};
  for (const FakeRun& run : {WithRecordDims(shards, "s[cp:zigzag] h"), Ranks(shards)}) {
    const DiffReport report = DiffOk(OneRank(whole), run);
    EXPECT_EQ(report.overall, Overall::kSame);
    EXPECT_THAT(report.job->how_b, Contains(Key(HasSubstr("zig"))));
  }
  EXPECT_EQ(DiffOk(OneRank(whole), WithRecordDims(shards, "s[cp] h")).overall, Overall::kDiffers);
  std::vector<Tensor> wrong = shards;
  wrong[2] = column({20, 55});
  const DiffReport report = DiffOk(OneRank(whole), WithRecordDims(wrong, "s[cp:zigzag] h"));
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->rank, 2);
  EXPECT_THAT(report.origin->row->comparison.metrics->worst.position, ElementsAre(5, 0));
}

}  // namespace
}  // namespace tdump::compare
