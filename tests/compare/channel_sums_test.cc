#include "compare/channel_sums.h"

#include <gtest/gtest.h>

#include <vector>

namespace tdump::compare {
namespace {

TEST(ChannelSums, PlacesOfABlockAreAllDifferentAndEvenOnesFirst) {
  EXPECT_EQ(PlaceInBlock(0), 0u);
  EXPECT_EQ(PlaceInBlock(2), 1u);
  EXPECT_EQ(PlaceInBlock(30), 15u);
  EXPECT_EQ(PlaceInBlock(1), 16u);
  EXPECT_EQ(PlaceInBlock(31), 31u);
  EXPECT_EQ(PlaceInBlock(33), 48u);
}

// Rows of 64, of which a tile of bfloat16 is the second: each way of adding finds what the others
// left.
TEST(ChannelSums, EachWayOfAddingGoesToTheSameSums) {
  ChannelSums channels(64);
  ASSERT_TRUE(channels.FitTiles());
  for (int round = 0; round < 2; ++round) {
    channels.Start();
    std::vector<double> errors(96);
    for (size_t i = 0; i < errors.size(); ++i) errors[i] = static_cast<double>(i + 1);
    channels.Add(errors.data(), errors.size(), 32);  // the second half of a row, and the next
    const TileChannels tile = channels.ForTile(64 + 32);
    EXPECT_EQ(tile.first, 32u);
    EXPECT_EQ(tile.count, 64u);
    tile.sums[PlaceInBlock(33)] += 1000;
    channels.Add(errors.data(), errors.size(), 32);
    channels.Add(64 * 7 + 5, 0.25);
    const std::vector<double>& sums = channels.Finish();
    ASSERT_EQ(sums.size(), 64u);
    for (size_t i = 0; i < 64; ++i) {
      const double once = static_cast<double>(i < 32 ? i + 33 : (i - 31) + (i + 33));
      EXPECT_EQ(sums[i], 2 * once + (i == 33 ? 1000 : 0) + (i == 5 ? 0.25 : 0)) << i;
    }
  }
}

TEST(ChannelSums, NoChannelsAreNoSums) {
  ChannelSums none(0);
  none.Start();
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.ForTile(96).sums, nullptr);
  EXPECT_TRUE(none.Finish().empty());
  EXPECT_FALSE(ChannelSums(50).FitTiles());
}

}  // namespace
}  // namespace tdump::compare
