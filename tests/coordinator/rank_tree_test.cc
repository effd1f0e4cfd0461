#include "coordinator/mpi/rank_tree.h"

#include <gtest/gtest.h>

namespace tdump::coordinator {
namespace {

using Ranks = std::vector<int32_t>;

TEST(RankTree, EveryRankHasAtMostFanOutChildren) {
  EXPECT_TRUE(RankTree(0, 7, 2).is_root());
  EXPECT_EQ(RankTree(0, 7, 2).children(), (Ranks{1, 2}));
  EXPECT_EQ(RankTree(2, 7, 2).children(), (Ranks{5, 6}));
  EXPECT_EQ(RankTree(6, 7, 2).parent(), 2);
  EXPECT_EQ(RankTree(0, 1, 2).children(), Ranks{});
}

TEST(RankTree, TheChildrenOfALeaverGoToItsParent) {
  RankTree parent(0, 7, 2), child(5, 7, 2);
  for (RankTree* tree : {&parent, &child}) tree->Leave(2);
  EXPECT_EQ(parent.children(), (Ranks{1, 5, 6}));
  EXPECT_EQ(child.parent(), 0);
}

TEST(RankTree, WithoutRank0TheLowestIsTheRoot) {
  RankTree one(1, 7, 2), two(2, 7, 2), six(6, 7, 2);
  for (RankTree* tree : {&one, &two, &six}) tree->Leave(0);
  EXPECT_TRUE(one.is_root());
  EXPECT_EQ(one.children(), (Ranks{2, 3, 4}));
  EXPECT_EQ(two.parent(), 1);
  EXPECT_EQ(six.parent(), 2);
}

// Every rank that is left is reached from the root, whoever left.
TEST(RankTree, EveryoneIsReached) {
  constexpr int32_t kWorld = 10;
  for (uint32_t gone = 0; gone < (1u << kWorld); gone += 7) {
    int reached = 0, there = 0, roots = 0;
    for (int32_t rank = 0; rank < kWorld; ++rank) {
      if ((gone >> rank & 1) != 0) continue;
      RankTree tree(rank, kWorld, 3);
      for (int32_t other = 0; other < kWorld; ++other) {
        if ((gone >> other & 1) != 0) tree.Leave(other);
      }
      ++there;
      roots += tree.is_root() ? 1 : 0;
      reached += static_cast<int>(tree.children().size());
      ASSERT_TRUE(tree.is_root() || tree.parent() < rank);
    }
    ASSERT_EQ(roots, there == 0 ? 0 : 1) << gone;
    ASSERT_EQ(reached + roots, there) << gone;
  }
}

}  // namespace
}  // namespace tdump::coordinator
