#include "compare/sparse_pairs.h"

#include <gmock/gmock.h>

#include <limits>

#include "compare/report_lines.h"
#include "tests/compare/diff_runs.h"

namespace tdump::compare {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Sparse {
  std::vector<int64_t> rows, columns;
  std::vector<float> values;
  bool coalesced = false;
  bool kept = true;
};

// A module that returns a 2x3 matrix, as a collector records it.
FakeRun RunOf(const Sparse& sparse) {
  const auto entries = static_cast<int64_t>(sparse.values.size());
  std::vector<int64_t> places = sparse.rows;
  places.insert(places.end(), sparse.columns.begin(), sparse.columns.end());
  Tensor whole = MakeTensor<float>("float32", {2, 3}, std::vector<float>(6));
  whole.record.layout = Layout::kSparseCoo;
  whole.record.subclass = sparse.coalesced ? "coalesced" : "uncoalesced";
  whole.record.payload.reset();
  whole.record.hash.reset();
  whole.record.parts_kept = kPartMeta;
  Tensor indices = MakeTensor<int64_t>("int64", {2, entries}, places);
  Tensor values = MakeTensor<float>("float32", {entries}, sparse.values);
  if (!sparse.kept) {
    indices.record.payload.reset();
    values.record.payload.reset();
  }
  FakeRun run(1);
  PassBuilder pass = run.Pass(0, 0);
  const Tensor in = Vector<float>("float32", {1, 2});
  pass.End(pass.Begin("sp", "", {{"0", in}}), "sp", "",
           {{"", whole}, {"indices", indices}, {"values", values}});
  return run;
}

// A09: (0, 1) twice.
const Sparse kTwice = {.rows = {0, 0}, .columns = {1, 1}, .values = {1, 2}};
const Sparse kOnce = {.rows = {0}, .columns = {1}, .values = {3}, .coalesced = true};

TEST(SparsePairsTest, ACoalescedTwinIsEqual) {
  const DiffReport report = DiffOk(RunOf(kTwice), RunOf(kOnce));
  EXPECT_EQ(report.overall, Overall::kSame);
  EXPECT_EQ(report.counts.failing, 0u);
  EXPECT_EQ(report.counts.shape, 2u);
  EXPECT_THAT(report.notes, Contains("sparse, equal once coalesced (2 pairs)"));
  EXPECT_EQ(DiffOk(RunOf(kOnce), RunOf(kTwice)).overall, Overall::kSame);
  // In another order.
  const Sparse sorted = {.rows = {0, 1}, .columns = {2, 0}, .values = {4, 5}, .coalesced = true};
  const Sparse turned = {.rows = {1, 0}, .columns = {0, 2}, .values = {5, 4}};
  EXPECT_EQ(DiffOk(RunOf(sorted), RunOf(turned)).overall, Overall::kSame);
  EXPECT_EQ(DiffOk(RunOf(turned), RunOf(sorted)).overall, Overall::kSame);
}

// An infinite sum hides nothing beside it.
TEST(SparsePairsTest, AnInfiniteEntryEqualsNoFiniteSum) {
  const float inf = std::numeric_limits<float>::infinity();
  const Sparse twice = {.rows = {0, 0}, .columns = {1, 1}, .values = {inf, 1}};
  const Sparse finite = {.rows = {0}, .columns = {1}, .values = {5}, .coalesced = true};
  const Sparse infinite = {.rows = {0}, .columns = {1}, .values = {inf}, .coalesced = true};
  EXPECT_EQ(DiffOk(RunOf(twice), RunOf(finite)).overall, Overall::kDiffers);
  EXPECT_EQ(DiffOk(RunOf(finite), RunOf(twice)).overall, Overall::kDiffers);
  EXPECT_EQ(DiffOk(RunOf(twice), RunOf(infinite)).overall, Overall::kSame);
}

TEST(SparsePairsTest, BitsAreBits) {
  DiffOptions options;
  options.pass.require_bits = true;
  EXPECT_EQ(DiffOk(RunOf(kTwice), RunOf(kOnce), options).overall, Overall::kDiffers);
}

TEST(SparsePairsTest, WhatDiffersIsToldAsItIsOnceCoalesced) {
  Sparse other = kOnce;
  other.values = {4};
  const DiffReport values = DiffOk(RunOf(kTwice), RunOf(other));
  EXPECT_EQ(values.overall, Overall::kDiffers);
  ASSERT_TRUE(values.origin && values.origin->row);
  EXPECT_EQ(ValuesText(*values.origin->row),
            "shape [2, 2] against [2, 1]; sparse, A is not coalesced and B is: coalesced, 1 of 1 "
            "entries differ, first [0, 1], A 3, B 4");
  other.columns = {2};
  const DiffReport places = DiffOk(RunOf(kTwice), RunOf(other));
  EXPECT_EQ(places.overall, Overall::kDiffers);
  EXPECT_THAT(ValuesText(*places.origin->row),
              HasSubstr("coalesced, place [0, 1] has an entry in A only"));
  EXPECT_THAT(ValuesText(*DiffOk(RunOf(Sparse{}), RunOf(kOnce)).origin->row),
              HasSubstr("coalesced, place [0, 1] has an entry in B only"));
  // Of what nobody kept the state alone is told.
  Sparse hashed = kTwice;
  hashed.kept = false;
  EXPECT_EQ(ValuesText(*DiffOk(RunOf(hashed), RunOf(kOnce)).origin->row),
            "shape [2, 2] against [2, 1]; sparse, A is not coalesced and B is");
}

// Adding 1 and 2^-24 up in float32 rounds to 1, or to its neighbour above.
TEST(SparsePairsTest, AddingUpMayRound) {
  const Sparse parts = {
      .rows = {1, 1}, .columns = {0, 0}, .values = {1, 0x1p-24f}, .coalesced = false};
  Sparse sum = {.rows = {1}, .columns = {0}, .values = {1}, .coalesced = true};
  EXPECT_EQ(DiffOk(RunOf(parts), RunOf(sum)).overall, Overall::kSame);
  sum.values = {1 + 0x1p-22f};
  EXPECT_EQ(DiffOk(RunOf(parts), RunOf(sum)).overall, Overall::kDiffers);
}

// Where both are coalesced nothing is said of it.
TEST(SparsePairsTest, OfTwoCoalescedOnesShapesTell) {
  const Sparse two = {.rows = {0, 1}, .columns = {1, 1}, .values = {3, 1}, .coalesced = true};
  const DiffReport report = DiffOk(RunOf(two), RunOf(kOnce));
  EXPECT_EQ(report.overall, Overall::kDiffers);
  EXPECT_EQ(ValuesText(*report.origin->row), "shape [2, 2] against [2, 1]");
  EXPECT_THAT(report.notes, Not(Contains(StartsWith("sparse"))));
}

}  // namespace
}  // namespace tdump::compare
