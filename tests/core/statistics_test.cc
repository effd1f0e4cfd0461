#include "core/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/statistics_tree.h"

namespace tdump {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TileMoments Tile(const std::vector<double>& values) {
  return MomentsOfTile(static_cast<int>(values.size()), [&](int i) { return values[i]; });
}

Statistics Finish(const TileMoments& moments, uint64_t count) {
  return FinishStatistics(StatisticsKind::kReal, count, {}, moments);
}

TEST(StatisticsTile, SmallNumbersByHand) {
  const Statistics s = Finish(Tile({1, -2, kNan, 4, kInf, -kInf}), 6);
  EXPECT_EQ(s.finite, 3u);
  EXPECT_EQ(s.min, -2);
  EXPECT_EQ(s.max, 4);
  EXPECT_EQ(s.mean, 1);
  EXPECT_EQ(s.l1, 7);
  EXPECT_EQ(s.mean_abs, 7.0 / 3);
  EXPECT_EQ(s.l2, std::sqrt(21.0));
  EXPECT_EQ(s.std, 3);  // deviations 0, -3, 3: sqrt(18 / 2)
  EXPECT_EQ(s.absmax(), 4);
  EXPECT_DOUBLE_EQ(s.rms(), std::sqrt(7.0));
}

TEST(StatisticsTile, NothingFiniteIsNone) {
  const Statistics s = Finish(Tile({kNan, kInf}), 2);
  EXPECT_FALSE(s.has_range());
  EXPECT_FALSE(s.has_std());
  EXPECT_EQ(s.min, 0);
  EXPECT_EQ(s.absmax(), 0);
  EXPECT_EQ(s.rms(), 0);
  EXPECT_TRUE(Finish(Tile({3}), 1).has_range());
  EXPECT_FALSE(Finish(Tile({3}), 1).has_std());
}

// Squares beyond the range of doubles on both ends.
TEST(StatisticsTile, ScalesWhatDoublesCannotSquare) {
  const Statistics large = Finish(Tile({3e300, -4e300}), 2);
  EXPECT_DOUBLE_EQ(large.l2, 5e300);
  EXPECT_DOUBLE_EQ(large.mean, -0.5e300);
  EXPECT_DOUBLE_EQ(large.std, std::sqrt(2 * 3.5 * 3.5) * 1e300);
  const Statistics small = Finish(Tile({3e-300, -4e-300}), 2);
  EXPECT_DOUBLE_EQ(small.l2, 5e-300);
  EXPECT_DOUBLE_EQ(small.mean_abs, 3.5e-300);
  EXPECT_DOUBLE_EQ(small.std, std::sqrt(2 * 3.5 * 3.5) * 1e-300);
}

TEST(StatisticsTile, MergesTilesOfDifferentScale) {
  const TileMoments tiny = Tile({1e-300, 3e-300}), one = Tile({1, 3}), huge = Tile({1e300, 3e300});
  const Statistics two = Finish(Merge(tiny, one), 4);
  EXPECT_EQ(two.max, 3);
  EXPECT_DOUBLE_EQ(two.mean, 1);
  EXPECT_DOUBLE_EQ(two.std, std::sqrt((1 + 1 + 0 + 4) / 3.0));
  const Statistics all = Finish(Merge(Merge(tiny, one), huge), 6);
  EXPECT_DOUBLE_EQ(all.l1, 4e300);
  EXPECT_DOUBLE_EQ(all.l2, std::sqrt(10.0) * 1e300);
  EXPECT_EQ(all.min, 1e-300);
  // A zero tile has no scale of its own.
  EXPECT_DOUBLE_EQ(Finish(Merge(Tile({0, 0}), tiny), 4).l1, 4e-300);
}

// A mean far from the values' spread: the second pass.
TEST(StatisticsTile, KeepsTheSpreadBesideALargeMean) {
  std::vector<double> values;
  for (int i = 0; i < kTileElements; ++i) values.push_back(1e9 + (i % 2));
  const Statistics s = Finish(Tile(values), values.size());
  EXPECT_EQ(s.mean, 1e9 + 0.5);
  EXPECT_DOUBLE_EQ(s.std, std::sqrt(0.25 * kTileElements / (kTileElements - 1)));
}

TEST(StatisticsTile, MergeIsAsTheWhole) {
  const Statistics s = Finish(Merge(Tile({1, 2, 3}), Tile({10, 20})), 5);
  EXPECT_DOUBLE_EQ(s.mean, 7.2);
  EXPECT_DOUBLE_EQ(s.std, std::sqrt((38.44 + 27.04 + 17.64 + 7.84 + 163.84) / 4));
  EXPECT_EQ(s.l1, 36);
  const Statistics left = Finish(Merge(Tile({kNan}), Tile({10, 20})), 3);
  EXPECT_EQ(left.finite, 2u);
  EXPECT_EQ(left.min, 10);
}

// Values chosen so that another order of merging gives another last bit.
TEST(MomentsTree, MergesInPairsFromTheLeft) {
  std::vector<TileMoments> tiles;
  for (int i = 0; i < 7; ++i) tiles.push_back(Tile({std::pow(10.0, i) / 3, 1.0 / (i + 7)}));
  const TileMoments pairs = Merge(Merge(tiles[0], tiles[1]), Merge(tiles[2], tiles[3]));
  const TileMoments rest = Merge(Merge(tiles[4], tiles[5]), tiles[6]);
  MomentsTree tree;
  for (const TileMoments& tile : tiles) tree.Add(tile);
  EXPECT_EQ(Finish(tree.Finish(), 14), Finish(Merge(pairs, rest), 14));
  EXPECT_EQ(tree.Finish().finite, 0);
  tree.Add(tiles[3]);
  EXPECT_EQ(Finish(tree.Finish(), 2), Finish(tiles[3], 2));
  TileMoments one_by_one = tiles[0];
  for (int i = 1; i < 7; ++i) one_by_one = Merge(one_by_one, tiles[i]);
  EXPECT_FALSE(Finish(one_by_one, 14) == Finish(Merge(pairs, rest), 14));
}

TEST(StatisticsTile, HistogramBins) {
  EXPECT_EQ(HistogramBin(1.0), 15);  // exponent 0: 127 / 8
  EXPECT_EQ(HistogramBin(-1.999), 15);
  EXPECT_EQ(HistogramBin(2.0), 16);
  EXPECT_EQ(HistogramBin(std::ldexp(1, -140)), 0);  // a float32 subnormal
  EXPECT_EQ(HistogramBin(5e-324), 0);
  EXPECT_EQ(HistogramBin(1e300), 31);
  EXPECT_EQ(HistogramBin(std::numeric_limits<float>::max()), 31);
}

TEST(StatisticsTile, MagnitudeNeverOverflows) {
  EXPECT_EQ(Magnitude(3, -4), 5);
  EXPECT_EQ(Magnitude(0, 0), 0);
  EXPECT_DOUBLE_EQ(Magnitude(3e-310, 4e-310), 5e-310);
  EXPECT_DOUBLE_EQ(Magnitude(3e300, 4e300), 5e300);
  EXPECT_EQ(Magnitude(1.7e308, 1.7e308), std::numeric_limits<double>::max());
}

}  // namespace
}  // namespace tdump
