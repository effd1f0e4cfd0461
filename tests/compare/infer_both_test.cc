// Whole diffs of runs made by hand, both of several ranks, of which nobody says how they share
// tensors: y = x w, the batch split over dp, the columns of w over tp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "compare/diff.h"
#include "tests/compare/job_runs.h"

namespace tdump::compare {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Key;

constexpr int kRows = 8, kIn = 3, kColumns = 8;

float X(int row, int column) {
  return static_cast<float>((row * 29 + column * 17 + row * column) % 13 - 6);
}
float W(int row, int column) {
  return static_cast<float>((row * 31 + column * 23 + row * column) % 11 - 5);
}
float Y(int row, int column) {
  float sum = 0;
  for (int i = 0; i < kIn; ++i) sum += X(row, i) * W(i, column);
  return sum;
}

Tensor Block(float (*of)(int, int), int row, int rows, int column, int columns) {
  std::vector<float> values;
  for (int r = row; r < row + rows; ++r) {
    for (int c = column; c < column + columns; ++c) values.push_back(of(r, c));
  }
  return Matrix(rows, columns, values);
}

struct Size {
  int dp = 1, tp = 1;
};
// What one rank records: a number of its own part of the batch, too.
struct Held {
  Tensor x, w, y, loss;
};
using Job = std::vector<Held>;

Job RanksOf(Size size) {
  Job ranks;
  const int rows = kRows / size.dp, columns = kColumns / size.tp;
  for (int rank = 0; rank < size.dp * size.tp; ++rank) {
    const int row = rank / size.tp * rows, column = rank % size.tp * columns;
    float loss = 0;
    for (int r = row; r < row + rows; ++r) loss += X(r, 0);
    ranks.push_back({.x = Block(X, row, rows, 0, kIn),
                     .w = Block(W, 0, kIn, column, columns),
                     .y = Block(Y, row, rows, column, columns),
                     .loss = MakeTensor<float>("float32", {}, {loss})});
  }
  return ranks;
}

FakeRun RunOf(const Job& ranks, Size size, bool with_hashes = true, const std::string& dp = "dp") {
  FakeRun run(static_cast<int32_t>(ranks.size()));
  for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) {
    const Held& held = ranks[static_cast<size_t>(rank)];
    run.Place(rank, "tp=" + std::to_string(rank % size.tp) + " " + dp + "=" +
                        std::to_string(rank / size.tp));
    PassBuilder pass = run.Pass(rank, 0);
    const auto recorded = [&] {
      if (!with_hashes) pass.last()->hash.reset();
    };
    pass.Tap("fc", "weight", held.w);
    recorded();
    const uint64_t begin = pass.Begin("fc", "", {{"0", held.x}});
    recorded();
    pass.End(begin, "fc", "", {{"", held.y}});
    recorded();
    pass.Tap("fc", "loss", held.loss);
    recorded();
  }
  return run;
}

DiffReport DiffOf(const FakeRun& a, const FakeRun& b) {
  DiffOptions options;
  options.job = JobOptions{};
  return DiffOk(a, b, options);
}

TEST(InferBoth, AxesThatBothSidesHaveAreNoCopies) {
  constexpr std::pair<Size, Size> kSizes[] = {
      {{2, 1}, {2, 1}}, {{1, 2}, {1, 2}}, {{2, 2}, {2, 2}}, {{2, 1}, {2, 2}}, {{1, 2}, {2, 2}},
      {{2, 2}, {2, 4}}, {{2, 2}, {4, 2}}, {{1, 4}, {2, 2}}, {{2, 1}, {4, 1}}, {{2, 1}, {1, 2}}};
  for (const auto& [a, b] : kSizes) {
    for (const bool with_hashes : {true, false}) {
      for (const auto& [left, right] : {std::pair(a, b), {b, a}}) {
        SCOPED_TRACE(testing::Message() << left.dp << "x" << left.tp << " against " << right.dp
                                        << "x" << right.tp << (with_hashes ? "" : ", no hashes"));
        Job of_a = RanksOf(left), of_b = RanksOf(right);
        if (left.dp != right.dp) {  // a loss of other rows is another number
          for (Job* ranks : {&of_a, &of_b})
            for (Held& held : *ranks) held.loss = MakeTensor<float>("float32", {}, {1});
        }
        const DiffReport report =
            DiffOf(RunOf(of_a, left, with_hashes), RunOf(of_b, right, with_hashes));
        EXPECT_EQ(report.overall, Overall::kSame);
        EXPECT_EQ(report.counts.paired, 4u);
        EXPECT_EQ(report.counts.bits_equal, 4u);
      }
    }
  }
}

// The report of a fault in B, of four ranks, against 2x2 and against 2x1.
void ExpectFoundOn(int32_t rank, const std::function<void(Job*)>& fault) {
  constexpr Size kB = {2, 2};
  for (const Size a : {Size{2, 2}, Size{2, 1}}) {
    Job of_b = RanksOf(kB);
    fault(&of_b);
    const DiffReport report = DiffOf(RunOf(RanksOf(a), a), RunOf(of_b, kB));
    EXPECT_EQ(report.overall, Overall::kDiffers) << a.tp;
    ASSERT_TRUE(report.origin) << a.tp;
    EXPECT_EQ(report.origin->rank, rank) << a.tp;
  }
}

TEST(InferBoth, WhatOneRankHoldsOtherwiseIsFoundOnIt) {
  ExpectFoundOn(3, [](Job* ranks) {
    Tensor& w = ranks->at(3).w;
    std::vector<float> values;
    for (int r = 0; r < kIn; ++r) {
      for (int c = 4; c < kColumns; ++c) values.push_back(W(r, c) + (r + c == 6 ? 0.01F : 0));
    }
    w = Matrix(kIn, 4, values);
  });
  // Data of the second place on dp.
  ExpectFoundOn(2, [](Job* ranks) {
    for (const size_t rank : {2u, 3u}) ranks->at(rank).x = Block(W, 3, 4, 5, kIn);
  });
  // Of the outputs: negated, of zeros, that of another rank.
  ExpectFoundOn(3, [](Job* ranks) {
    ranks->at(3).y = Block([](int r, int c) { return -Y(r, c); }, 4, 4, 4, 4);
  });
  ExpectFoundOn(3, [](Job* ranks) { ranks->at(3).y = Matrix(4, 4, std::vector<float>(16)); });
  ExpectFoundOn(1, [](Job* ranks) { ranks->at(1).y = ranks->at(0).y; });
}

// Their sum is the same, and rank by rank they are not.
TEST(InferBoth, RanksThatChangedPlacesAreFound) {
  for (const Size size : {Size{2, 1}, Size{1, 2}}) {
    for (const bool with_hashes : {true, false}) {
      Job swapped = RanksOf(size);
      std::swap(swapped[0], swapped[1]);
      const DiffReport report =
          DiffOf(RunOf(RanksOf(size), size, with_hashes), RunOf(swapped, size, with_hashes));
      EXPECT_EQ(report.overall, Overall::kDiffers) << size.tp;
      EXPECT_EQ(report.counts.failing, size.tp == 2 ? 2u : 3u) << size.tp;
    }
  }
}

// So they are where the axis has another name on each side.
TEST(InferBoth, RanksThatChangedPlacesOnAnAxisOfAnotherNameAreFound) {
  constexpr Size kSize = {2, 1};
  for (const bool with_hashes : {true, false}) {
    const FakeRun run = RunOf(RanksOf(kSize), kSize, with_hashes);
    EXPECT_EQ(DiffOf(run, RunOf(RanksOf(kSize), kSize, with_hashes, "fsdp")).overall,
              Overall::kSame);
    Job swapped = RanksOf(kSize);
    std::swap(swapped[0], swapped[1]);
    EXPECT_EQ(DiffOf(run, RunOf(swapped, kSize, with_hashes, "fsdp")).overall, Overall::kDiffers);
  }
}

// The batch shared out along tp, a reduction left out: another layout would make both agree.
TEST(InferBoth, AnAxisThatDoesOtherwiseInOneSideIsAFault) {
  constexpr Size kBoth = {2, 2}, kTensor = {1, 2};
  for (const bool with_hashes : {true, false}) {
    Job by_tp = RanksOf(kBoth);
    for (size_t rank = 0; rank < 4; ++rank) {
      const int row = static_cast<int>(rank % 2) * 4;
      by_tp[rank].x = Block(X, row, 4, 0, kIn);
    }
    const DiffReport batch =
        DiffOf(RunOf(RanksOf(kBoth), kBoth, with_hashes), RunOf(by_tp, kBoth, with_hashes));
    EXPECT_EQ(batch.overall, Overall::kDiffers);

    Job whole = RanksOf(kTensor), parts = RanksOf(kTensor);
    std::vector<float> all, one, other;
    for (int i = 0; i < 32; ++i) {
      all.push_back(static_cast<float>((i * 37) % 23 - 11));
      one.push_back(static_cast<float>((i * 29) % 17 - 8));
      other.push_back(all.back() - one.back());
    }
    for (Held& held : whole) held.y = Matrix(8, 4, all);
    parts[0].y = Matrix(8, 4, one);
    parts[1].y = Matrix(8, 4, other);
    const DiffReport sum =
        DiffOf(RunOf(whole, kTensor, with_hashes), RunOf(parts, kTensor, with_hashes));
    EXPECT_EQ(sum.overall, Overall::kDiffers);
  }
}

// Losses of parts of the batch: each rank has its own.
TEST(InferBoth, NumbersOfEachRanksOwnAreComparedRankByRank) {
  constexpr Size kSize = {2, 1};
  const FakeRun run = RunOf(RanksOf(kSize), kSize);
  EXPECT_THAT(DiffOf(run, run).job->how_a, Contains(Key(HasSubstr("concatenated on dp"))));
  Job other = RanksOf(kSize);
  other[1].loss = MakeTensor<float>("float32", {}, {1000});
  const DiffReport report = DiffOf(run, RunOf(other, kSize));
  EXPECT_EQ(report.counts.failing, 1u);
  EXPECT_EQ(report.failing.at(0).rank_b, 1);
}

// Records that kept a hash alone.
TEST(InferBoth, ShardsKnownByTheirHashAreJudgedByIt) {
  const auto run = [](const Tensor& last) {
    FakeRun ranks(4);
    for (int rank = 0; rank < 4; ++rank) {
      ranks.Place(rank, "tp=" + std::to_string(rank % 2) + " dp=" + std::to_string(rank / 2));
      const Tensor half = Block(W, 0, kIn, rank % 2 * 4, 4);
      ranks.Pass(rank, 0).Param("fc", "weight", rank == 3 ? last : half);
    }
    return ranks;
  };
  const FakeRun right = run(Block(W, 0, kIn, 4, 4));
  const DiffReport same = DiffOf(right, right);
  EXPECT_EQ(same.overall, Overall::kSame);
  EXPECT_EQ(same.counts.equal_by_hash, 1u);
  const DiffReport report = DiffOf(right, run(Block(W, 0, kIn, 3, 4)));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(report.counts.equal_by_hash, 1u);
  EXPECT_THAT(report.job->how_b, Contains(Key(HasSubstr("rank 3 differs from rank 1"))));
}

// A weight that all hold, but for one rank: its copy differs.
TEST(InferBoth, CopiesOfOneSideSayWhatIsCopied) {
  constexpr Size kSize = {2, 1};
  Job other = RanksOf(kSize);
  other[1].w = Matrix(kIn, kColumns, std::vector<float>(24, 3));
  const DiffReport report = DiffOf(RunOf(RanksOf(kSize), kSize), RunOf(other, kSize));
  EXPECT_THAT(report.job->how_b, Contains(Key(HasSubstr("rank 1 differs from rank 0"))));
  EXPECT_EQ(report.counts.failing, 1u);
}

}  // namespace
}  // namespace tdump::compare
