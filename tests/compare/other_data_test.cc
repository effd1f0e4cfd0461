// Ranks that lack a call and were given other data: whether that is the reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/compare/skipped_runs.h"

namespace tdump::compare {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// An encoder of images, of which one half of a batch has none.
TEST(OtherData, ARankWhoseDataHadNothingForItSkippedNothing) {
  FakeRun a(1);
  PassBuilder whole = a.Pass(0, 0);
  whole.Module("a", kBatch, kBatch);
  whole.Module("vis", kFirstRows, kFirstRows);
  whole.Module("c", kBatch, kBatch);
  const auto of = [&](const std::string& axis) {
    FakeRun b(2);
    for (const int32_t rank : {0, 1}) {
      b.Place(rank, axis + "=" + std::to_string(rank));
      const Tensor& in = rank == 0 ? kFirstRows : kLastRows;
      PassBuilder pass = b.Pass(rank, 0);
      pass.Module("a", in, in);
      if (rank == 0) pass.Module("vis", in, in);
      pass.Module("c", in, in);
    }
    return DiffOk(a, b);
  };
  for (const char* const axis : {"dp", "cp"}) ExpectSame(of(axis));
  EXPECT_EQ(of("tp").counts.unpaired_a, 2u);  // all of them are given the same
}

// Rows 2 i and 2 i + 1 of a batch, for each part i.
Tensor RowsOf(const std::vector<int>& parts) {
  std::vector<float> values;
  for (const int part : parts) {
    for (const int row : {2 * part, 2 * part + 1}) {
      values.push_back(static_cast<float>(1 + row) * 1.37f);
      values.push_back(static_cast<float>(row * row) - 3.1f);
    }
  }
  return Matrix(2 * static_cast<int64_t>(parts.size()), 2, values);
}

// Of four parts of a batch, by places on `axis`, those of `images` have some; `skips`: this rank
// does not run their encoder.
FakeRun Images(const std::string& axis, int32_t world, const std::vector<bool>& images,
               int32_t skips = -1) {
  FakeRun run(world);
  const int each = 4 / world;
  for (int32_t rank = 0; rank < world; ++rank) {
    if (world > 1) run.Place(rank, axis + "=" + std::to_string(rank));
    std::vector<int> parts, with_images;
    for (int part = each * rank; part < each * (rank + 1); ++part) {
      parts.push_back(part);
      if (images[static_cast<size_t>(part)]) with_images.push_back(part);
    }
    PassBuilder pass = run.Pass(rank, 0);
    pass.Module("a", RowsOf(parts), RowsOf(parts));
    if (!with_images.empty() && rank != skips)
      pass.Module("vis", RowsOf(with_images), RowsOf(with_images));
    pass.Module("c", RowsOf(parts), RowsOf(parts));
  }
  return run;
}

TEST(OtherData, WhatRanksOfOtherDataHoldMayBeTheWhole) {
  for (const auto& images : {std::vector<bool>{true, false, false, false},
                             {true, true, false, false},
                             {true, true, true, false},
                             {false, true, true, true},
                             {true, false, true, true}}) {
    for (const char* const axis : {"dp", "fsdp", "cp"}) {
      for (const int32_t a : {1, 2, 4}) {
        for (const int32_t b : {1, 2, 4}) {
          SCOPED_TRACE(testing::Message() << axis << " " << a << " against " << b << ", parts "
                                          << testing::PrintToString(images));
          ExpectSame(DiffOk(Images(axis, a, images), Images(axis, b, images)));
        }
      }
    }
  }
  // A part of it is missing.
  const std::vector<bool> images = {true, true, true, false};
  EXPECT_GT(DiffOk(Images("dp", 1, images), Images("dp", 4, images, 2)).counts.unpaired_a, 0u);
  EXPECT_EQ(DiffOk(Images("dp", 2, images), Images("dp", 4, images, 1)).overall, Overall::kDiffers);
  EXPECT_EQ(DiffOk(Images("dp", 4, images), Images("dp", 4, images, 0)).overall, Overall::kDiffers);
}

// Two of three ranks, each with data of its own, run what depends on none of it.
TEST(OtherData, WhatIsTheSameForAllDataIsMissed) {
  const auto of = [](int32_t world, bool skips) {
    FakeRun run(world);
    for (int32_t rank = 0; rank < world; ++rank) {
      if (world > 1) run.Place(rank, "dp=" + std::to_string(rank));
      PassBuilder pass = run.Pass(rank, 0);
      const Tensor data = world > 1 ? RowsOf({rank}) : RowsOf({0, 1, 2});
      pass.Module("a", data, data);
      if (!skips || rank != 2) pass.Module("table", kFirstRows, kFirstRows);
      pass.Module("c", data, data);
    }
    return run;
  };
  ExpectSame(DiffOk(of(1, false), of(3, false)));
  const DiffReport report = DiffOk(of(1, false), of(3, true));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->name, "table");
  EXPECT_EQ(report.origin->rank, 2);
}

// Step 1 lacks b on the last rank, though all were given the same.
FakeRun CopiesOn(const std::string& axis, int32_t world, bool skips, bool has_root) {
  FakeRun run(world);
  for (int32_t rank = 0; rank < world; ++rank) {
    if (world > 1) run.Place(rank, axis + "=" + std::to_string(rank));
    for (const uint64_t step : {0, 1}) {
      PassBuilder pass = run.Pass(rank, step);
      const uint64_t root = has_root ? pass.Begin(".", "", {{"0", kFirstRows}}) : 0;
      RunThree(pass, "b", kFirstRows, kFirstRows, kFirstRows,
               skips && step == 1 && rank == world - 1);
      if (has_root) pass.End(root, ".", "", {{"", kFirstRows}});
    }
  }
  return run;
}

TEST(OtherData, RanksThatWereGivenTheSameRunTheSameOnAnyAxis) {
  for (const char* const axis : {"tp", "dp", "fsdp", "cp"}) {
    for (const bool has_root : {false, true}) {
      for (const int32_t world_a : {1, 2}) {
        SCOPED_TRACE(testing::Message() << axis << ", root " << has_root << ", A " << world_a);
        const FakeRun a = CopiesOn(axis, world_a, false, has_root);
        const DiffReport report = DiffOk(a, CopiesOn(axis, 4, true, has_root));
        EXPECT_EQ(report.overall, Overall::kDiffers);
        EXPECT_EQ(report.counts.unpaired_a, 2u);
        ASSERT_TRUE(report.origin);
        EXPECT_EQ(report.origin->name, "b");
        EXPECT_EQ(report.origin->rank, 3);
        ExpectSame(DiffOk(a, CopiesOn(axis, 4, false, has_root)));
      }
    }
  }
}

// Rank 1 has no images at step 1.
TEST(OtherData, OtherDataNeedsNoPlaces) {
  const auto of = [](int32_t world, bool is_same) {
    FakeRun run(world);
    for (int32_t rank = 0; rank < world; ++rank) {
      std::vector<int> parts = {0, 1};
      if (world == 2) parts = {is_same ? 0 : rank};
      for (const uint64_t step : {0, 1}) {
        PassBuilder pass = run.Pass(rank, step);
        pass.Module("a", RowsOf(parts), RowsOf(parts));
        if (step == 0 || rank == 0) {
          const Tensor images = RowsOf(step == 0 ? parts : std::vector<int>{0});
          pass.Module("vis", images, images);
        }
        pass.Module("c", RowsOf(parts), RowsOf(parts));
      }
      run.Count(rank, "vis", rank == 0 ? 2 : 1);
    }
    return run;
  };
  ExpectSame(DiffOk(of(1, false), of(2, false)));
  EXPECT_GT(DiffOk(of(1, false), of(2, true)).counts.unpaired_a, 0u);
}

// One half of the batch has no images; of the other, one of two ranks skips their encoder.
TEST(OtherData, OtherDataOnBothSidesHidesNoSkippedCall) {
  const auto of = [](int32_t tp, bool all_images, bool skips) {
    FakeRun run(2 * tp);
    for (int32_t rank = 0; rank < 2 * tp; ++rank) {
      const int half = rank / tp;
      const std::string dp = "dp=" + std::to_string(half);
      run.Place(rank, tp == 1 ? dp : "tp=" + std::to_string(rank % tp) + " " + dp);
      PassBuilder pass = run.Pass(rank, 0);
      pass.Module("xa", RowsOf({half}), RowsOf({half}));
      if ((half == 0 || all_images) && !(skips && rank == 1))
        pass.Module("vis", RowsOf({half}), RowsOf({half}));
      pass.Module("xc", RowsOf({half}), RowsOf({half}));
    }
    return run;
  };
  const DiffOptions options = WithDims("", "b[dp] d");
  for (const bool all_images : {false, true}) {
    const FakeRun a = of(1, all_images, false);
    ExpectSame(DiffOk(a, of(2, all_images, false), options));
    const DiffReport report = DiffOk(a, of(2, all_images, true), options);
    EXPECT_EQ(report.counts.unpaired_a, 2u);
    ASSERT_TRUE(report.origin);
    EXPECT_EQ(report.origin->name, "vis");
    EXPECT_EQ(report.origin->rank, 1);
    const std::string others = all_images ? "ranks 0,2-3 have" : "rank 0 has";
    EXPECT_THAT(Joined(Text(report, 1, 3)),
                HasSubstr("rank 1 of B has no record of vis in step 0, though " + others));
  }
}

void AddInMicroBatch(PassBuilder* pass, const char* name, uint32_t micro, const Tensor& rows) {
  pass->Module(name, rows, rows);
  pass->last_call()->call.micro = micro;
  for (auto record = pass->records()->end() - 2; record != pass->records()->end(); ++record)
    record->key.micro = micro;
}

// A batch of three by micro-batches of one: one rank has two of them.
TEST(OtherData, AMicroBatchThatTheRankDoesNotHaveIsNotSkipped) {
  const auto of = [&](int32_t ranks, bool has_it) {
    FakeRun run(ranks);
    for (int32_t rank = 0; rank < ranks; ++rank) {
      run.Place(rank, "dp=" + std::to_string(rank));
      PassBuilder pass = run.Pass(rank, 0);
      AddInMicroBatch(&pass, "a", 0, ranks == 1 ? kBatch : rank == 1 ? kLastRows : kFirstRows);
      if (rank == 1 && !has_it) continue;
      if (rank == 0) AddInMicroBatch(&pass, "b", 1, kFirstRows);
      AddInMicroBatch(&pass, "c", 1,
                      ranks == 1 && has_it ? kBatch
                      : rank == 1          ? kLastRows
                                           : kFirstRows);
    }
    return run;
  };
  ExpectSame(DiffOk(of(1, false), of(2, false)));
  ExpectSame(DiffOk(of(1, true), of(2, true)));
}

TEST(OtherData, RanksThatWereGivenTheSameHaveTheSameMicroBatches) {
  const auto of = [&](const std::string& axis, int32_t ranks, bool skips) {
    FakeRun run(ranks);
    for (int32_t rank = 0; rank < ranks; ++rank) {
      if (ranks > 1) run.Place(rank, axis + "=" + std::to_string(rank));
      PassBuilder pass = run.Pass(rank, 0);
      AddInMicroBatch(&pass, "a", 0, kFirstRows);
      if (rank == 0 || !skips) AddInMicroBatch(&pass, "a", 1, kFirstRows);
    }
    return run;
  };
  for (const char* const axis : {"tp", "sp", "dp", "cp"}) {
    EXPECT_EQ(DiffOk(of(axis, 1, false), of(axis, 2, true)).counts.unpaired_a, 2u) << axis;
    ExpectSame(DiffOk(of(axis, 1, false), of(axis, 2, false)));
  }
}

// A rank of batches that died before it wrote a pass.
TEST(OtherData, ARankThatIsGoneIsNoOtherInput) {
  const auto diff = [](bool closed) {
    FakeRun a(1), b(2);
    const auto fill = [](PassBuilder pass, const Tensor& in) {
      const uint64_t root = pass.Begin(".", "", {{"0", in}});
      pass.Module("a", in, in);
      pass.End(root, ".", "", {{"", in}});
      pass.Param("a", "weight", kInput);
    };
    fill(a.Pass(0, 0), kBatch);
    fill(b.Pass(0, 0), kFirstRows);
    b.index()->ranks[1].closed = closed;
    b.index()->ranks[1].how = "killed";
    return DiffOk(a, b);
  };
  const DiffReport report = diff(false);
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_FALSE(report.inputs.first_differing_step);
  EXPECT_FALSE(report.origin);
  EXPECT_EQ(report.counts.paired, 1u);  // the weight
  EXPECT_THAT(Joined(Text(report, 1, 2)), HasSubstr("rank 1 of B has no step 0"));
  EXPECT_TRUE(diff(true).inputs.first_differing_step);  // it recorded nothing: rules, or the data
}

// What two ranks of three run for their images, in which a table and the second input of a layer
// are the same for all images.
FakeRun Encoder(int32_t world, bool is_captured) {
  FakeRun run(world);
  for (int32_t rank = 0; rank < world; ++rank) {
    if (world > 1) run.Place(rank, "dp=" + std::to_string(rank));
    PassBuilder pass = run.Pass(rank, 0);
    const Tensor rows = world > 1 ? RowsOf({rank}) : RowsOf({0, 1, 2});
    pass.Module("a", rows, rows);
    if (rank < 2) {
      const Tensor images = world > 1 ? RowsOf({rank}) : RowsOf({0, 1});
      const uint64_t encoder = is_captured ? pass.Begin("vis", "", {{"0", images}}) : 0;
      pass.Module("vis.table", kFirstRows, kLastRows);
      const uint64_t layer = pass.Begin("vis.layer", "", {{"0", images}, {"1", kLastRows}});
      pass.End(layer, "vis.layer", "", {{"", images}});
      if (is_captured) pass.End(encoder, "vis", "", {{"", images}});
    }
    pass.Module("c", rows, rows);
  }
  return run;
}

TEST(OtherData, ItIsTheReasonForAllThatTheModuleRuns) {
  for (const bool is_captured : {false, true}) {
    const FakeRun whole = Encoder(1, is_captured), parts = Encoder(3, is_captured);
    const DiffReport report = DiffOk(whole, parts);
    ExpectSame(report);
    ExpectSame(DiffOk(parts, whole));
    EXPECT_THAT(report.notes,
                Contains(HasSubstr("ranks of B that have no record of vis")).Times(1));
    EXPECT_THAT(report.notes,
                Contains(HasSubstr("were given other data than those that have, which is taken for "
                                   "the reason")));
  }
}

TEST(OtherData, WhatIsTheSameForAllDataIsMissedBesideWhatTheRankRan) {
  const auto of = [](int32_t world, bool skips) {
    FakeRun run(world);
    for (int32_t rank = 0; rank < world; ++rank) {
      if (world > 1) run.Place(rank, "dp=" + std::to_string(rank));
      PassBuilder pass = run.Pass(rank, 0);
      const Tensor rows = world > 1 ? RowsOf({rank}) : RowsOf({0, 1, 2});
      pass.Module("x.a", rows, rows);
      if (!skips || rank != 2) pass.Module("x.table", kFirstRows, kFirstRows);
    }
    return run;
  };
  ExpectSame(DiffOk(of(1, false), of(3, false)));
  const DiffReport report = DiffOk(of(1, false), of(3, true));
  EXPECT_EQ(report.counts.unpaired_a, 2u);
  ASSERT_TRUE(report.origin);
  EXPECT_EQ(report.origin->name, "x.table");
}

// Of the rows [first, first + rows) of a batch, the columns [begin, end).
template <class T>
Tensor Cut(const std::string& dtype, int first, int rows, int begin, int end) {
  std::vector<T> values;
  for (int row = first; row < first + rows; ++row) {
    for (int column = begin; column < end; ++column)
      values.push_back(static_cast<T>(10 * row + 3 * column * column + 1));
  }
  return MakeTensor<T>(dtype, {rows, end - begin}, values);
}

// A batch of which the first half has images, on one rank; or each half on two ranks, which are
// given columns of it. `skips`: this rank does not run the table.
FakeRun Halves(const std::string& axis, bool is_whole, int32_t skips = -1) {
  FakeRun run(is_whole ? 1 : 4);
  for (int32_t rank = 0; rank < (is_whole ? 1 : 4); ++rank) {
    const int half = rank / 2, part = rank % 2;
    if (!is_whole)
      run.Place(rank, axis + "=" + std::to_string(part) + " dp=" + std::to_string(half));
    const int first = 2 * half, rows = is_whole ? 4 : 2;
    const int begin = 2 * part, end = is_whole ? 4 : begin + 2;
    const Tensor ids = axis == "tp" ? Cut<int64_t>("int64", first, rows, 0, 4)
                                    : Cut<int64_t>("int64", first, rows, begin, end);
    const Tensor hidden = Cut<float>("float32", first, rows, begin, end);
    PassBuilder pass = run.Pass(rank, 0);
    const uint64_t root = pass.Begin(".", "", {{"ids", ids}, {"hidden", hidden}});
    if (half == 0) pass.Module("vis", RowsOf({0}), RowsOf({0}));
    if (rank != skips) pass.Module("table", kFirstRows, kLastRows);
    pass.Module("c", hidden, hidden);
    pass.End(root, ".", "", {{"", hidden}});
  }
  return run;
}

TEST(OtherData, PartsOfOneBatchAreNoOtherDataForWhatAnotherBatchLacks) {
  for (const char* const axis : {"tp", "cp"}) {
    const FakeRun a = Halves(axis, true);
    ExpectSame(DiffOk(a, Halves(axis, false)));
    for (const int32_t skips : {1, 3}) {
      SCOPED_TRACE(testing::Message() << axis << ", rank " << skips);
      const DiffReport report = DiffOk(a, Halves(axis, false, skips));
      EXPECT_EQ(report.counts.unpaired_a, 2u);
      ASSERT_TRUE(report.origin);
      EXPECT_EQ(report.origin->name, "table");
      EXPECT_EQ(report.origin->rank, skips);
    }
  }
}

const Tensor kIds = MakeTensor<int64_t>("int64", {2}, {3, 4});

// Ranks that are given the same token ids, the first one labels too; the second one lacks b in step
// 1.
FakeRun Labels(const std::string& axis, int32_t world, bool skips) {
  FakeRun run(world);
  for (int32_t rank = 0; rank < world; ++rank) {
    if (!axis.empty()) run.Place(rank, axis + "=" + std::to_string(rank));
    const bool is_short = skips && rank == 1;
    for (const uint64_t step : {0, 1}) {
      PassBuilder pass = run.Pass(rank, step);
      std::vector<PassBuilder::Argument> inputs = {{"ids", kIds}};
      if (rank == 0) inputs.push_back({"labels", MakeTensor<int64_t>("int64", {2}, {5, 6})});
      const uint64_t root = pass.Begin(".", "", inputs);
      RunThree(pass, "b", kFirstRows, kFirstRows, kFirstRows, is_short && step == 1);
      pass.End(root, ".", "", {{"", kFirstRows}});
    }
    run.Count(rank, "b", is_short ? 1 : 2);
  }
  return run;
}

TEST(OtherData, MoreOfTheSameDataIsNoReason) {
  for (const char* const axis : {"", "tp", "dp", "cp"}) {
    SCOPED_TRACE(axis);
    const FakeRun a = Labels("", 1, false);
    ExpectSame(DiffOk(a, Labels(axis, 2, false)));
    const DiffReport report = DiffOk(a, Labels(axis, 2, true));
    EXPECT_EQ(report.counts.unpaired_a, 2u);
    ASSERT_TRUE(report.origin);
    EXPECT_EQ(report.origin->name, "b");
    EXPECT_EQ(report.origin->rank, 1);
    EXPECT_THAT(report.notes, Not(Contains(HasSubstr("taken for the reason"))));
  }
}

// The images of a batch, an argument of the model that ranks without images are not given, and what
// it makes of them. `lost`: a rank that is not given its own.
FakeRun ImagesAsArgument(int32_t world, bool has_same_ids = false, int32_t lost = -1) {
  FakeRun run(world);
  for (int32_t rank = 0; rank < world; ++rank) {
    if (world > 1) run.Place(rank, "dp=" + std::to_string(rank));
    const std::vector<int> parts = world > 1 ? std::vector<int>{rank} : std::vector<int>{0, 1, 2};
    std::vector<int64_t> ids;
    for (const int part : parts) ids.push_back(has_same_ids ? 7 : part + 3);
    if (has_same_ids) ids.resize(1);
    std::vector<PassBuilder::Argument> inputs = {{"ids", Vector<int64_t>("int64", ids)}};
    std::vector<PassBuilder::Argument> outputs = {{"0", RowsOf(parts)}};
    const Tensor images = world > 1 ? RowsOf({rank}) : RowsOf({0, 1});
    const bool has_images = rank < 2 && rank != lost;
    if (has_images) inputs.push_back({"images", images});
    if (has_images) outputs.push_back({"1", images});
    PassBuilder pass = run.Pass(rank, 0);
    const uint64_t root = pass.Begin(".", "", inputs);
    if (has_images) pass.Module("vis", images, images);
    pass.Module("c", RowsOf(parts), RowsOf(parts));
    pass.End(root, ".", "", outputs);
  }
  return run;
}

TEST(OtherData, ItIsTheReasonForAnArgumentThatARankIsNotGiven) {
  const FakeRun whole = ImagesAsArgument(1), parts = ImagesAsArgument(3);
  const DiffReport report = DiffOk(whole, parts);
  ExpectSame(report);
  EXPECT_THAT(report.notes, Contains(HasSubstr("no record of vis")).Times(1));
  ExpectSame(DiffOk(parts, whole));
  ExpectSame(DiffOk(parts, ImagesAsArgument(3)));
}

TEST(OtherData, APartOfAnArgumentThatIsMissingIsFound) {
  const FakeRun whole = ImagesAsArgument(1);
  const auto expect_differs = [](const FakeRun& a, const FakeRun& b) {
    EXPECT_EQ(DiffOk(a, b).overall, Overall::kDiffers);
    EXPECT_EQ(DiffOk(b, a).overall, Overall::kDiffers);
  };
  expect_differs(whole, ImagesAsArgument(3, false, /*lost=*/1));
  expect_differs(ImagesAsArgument(3), ImagesAsArgument(3, false, 1));
  // Equal token ids: it was given the same, but for the images.
  expect_differs(ImagesAsArgument(1, true), ImagesAsArgument(3, true));
}

}  // namespace
}  // namespace tdump::compare
