#include "collectors/device/staging_ring.h"

#include <gtest/gtest.h>

namespace tdump::collectors {
namespace {

TEST(StagingRing, RoomIsGivenInOrderAndAligned) {
  StagingRing ring(1024, 8);
  EXPECT_EQ(ring.offset(ring.Take(1)), 0u);
  EXPECT_EQ(ring.offset(ring.Take(257)), 256u);
  EXPECT_EQ(ring.offset(ring.Take(256)), 768u);
  EXPECT_EQ(ring.Take(1), StagingRing::kNone);
}

TEST(StagingRing, RoomComesBackInOrder) {
  StagingRing ring(1024, 8);
  const uint32_t first = ring.Take(512), second = ring.Take(512);
  ring.Give(second);
  EXPECT_EQ(ring.Take(1), StagingRing::kNone);  // the older half is still out
  ring.Give(first);
  EXPECT_NE(ring.Take(1024), StagingRing::kNone);
}

TEST(StagingRing, APartNeverWrapsAround) {
  StagingRing ring(1024, 8);
  const uint32_t first = ring.Take(512);
  const uint32_t second = ring.Take(256);
  ring.Give(first);
  const uint32_t third = ring.Take(512);  // 256 left at the end: starts again at 0
  ASSERT_NE(third, StagingRing::kNone);
  EXPECT_EQ(ring.offset(third), 0u);
  EXPECT_EQ(ring.Take(256), StagingRing::kNone);  // what was skipped is not used out of order
  ring.Give(second);
  EXPECT_EQ(ring.offset(ring.Take(256)), 512u);
}

TEST(StagingRing, TheWholeRingFitsWhereverItStands) {
  StagingRing ring(1024, 8);
  ring.Give(ring.Take(256));
  const uint32_t all = ring.Take(1024);
  ASSERT_NE(all, StagingRing::kNone);
  EXPECT_EQ(ring.offset(all), 0u);
  EXPECT_EQ(ring.Take(1025), StagingRing::kNone);
}

TEST(StagingRing, SlotsRunOutToo) {
  StagingRing ring(1 << 20, 2);
  const uint32_t first = ring.Take(1);
  EXPECT_NE(ring.Take(1), StagingRing::kNone);
  EXPECT_EQ(ring.Take(1), StagingRing::kNone);
  ring.Give(first);
  EXPECT_NE(ring.Take(1), StagingRing::kNone);
}

// Against the plain definition: parts that are out never overlap.
TEST(StagingRing, PartsNeverOverlap) {
  StagingRing ring(8192, 16);
  struct Part {
    uint32_t slot;
    uint64_t begin, end;
  };
  std::vector<Part> out;
  uint64_t random = 12345;
  int given = 0;
  for (int i = 0; i < 5000; ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    if ((random >> 40) % 3 != 0) {
      const uint64_t bytes = 1 + (random >> 33) % 3000;
      const uint32_t slot = ring.Take(bytes);
      if (slot == StagingRing::kNone) continue;
      ++given;
      const Part part{slot, ring.offset(slot), ring.offset(slot) + bytes};
      EXPECT_LE(part.end, 8192u);
      for (const Part& other : out) EXPECT_TRUE(part.end <= other.begin || other.end <= part.begin);
      out.push_back(part);
    } else if (!out.empty()) {
      const size_t which = (random >> 33) % out.size();
      ring.Give(out[which].slot);
      out.erase(out.begin() + which);
    }
  }
  EXPECT_GT(given, 1000);
  for (const Part& part : out) ring.Give(part.slot);
  EXPECT_EQ(ring.out(), 0u);
  EXPECT_NE(ring.Take(8192), StagingRing::kNone);
}

}  // namespace
}  // namespace tdump::collectors
