#include "compare/page_buffer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <utility>

namespace tdump::compare {
namespace {

TEST(PageBuffer, BeginsOnAPageWhateverItsSize) {
  PageBuffer buffer;
  EXPECT_EQ(buffer.size(), 0u);
  for (const size_t bytes : {1, 4096, 100'000, 10, 131'072}) {
    buffer.Resize(bytes);
    EXPECT_EQ(buffer.size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 4096, 0u);
    std::memset(buffer.data(), 1, bytes);  // all of it is there
  }
}

TEST(PageBuffer, KeepsItsPlaceWhereItNeedNotGrow) {
  PageBuffer buffer;
  buffer.Resize(5000);
  const std::byte* data = buffer.data();
  buffer.Resize(10);
  buffer.Resize(5000);
  EXPECT_EQ(buffer.data(), data);
}

TEST(PageBuffer, TakesWhatTheLastTwoLeft) {
  const std::byte *first, *second;
  {
    PageBuffer one, other, small;
    one.Resize(300'000);
    other.Resize(300'000);
    small.Resize(10);
    first = one.data();
    second = other.data();
    EXPECT_NE(first, second);
  }
  PageBuffer one, other;
  one.Resize(1000);
  other.Resize(300'000);
  EXPECT_NE(one.data(), other.data());
  EXPECT_TRUE(one.data() == first || one.data() == second);
  EXPECT_TRUE(other.data() == first || other.data() == second);
  EXPECT_EQ(one.size(), 1000u);
}

TEST(PageBuffer, MovesWithItsBytes) {
  PageBuffer one;
  one.Resize(5000);
  const std::byte* data = one.data();
  PageBuffer other = std::move(one);
  EXPECT_EQ(other.data(), data);
  EXPECT_EQ(other.size(), 5000u);
  one = std::move(other);
  EXPECT_EQ(one.data(), data);
  EXPECT_EQ(one.size(), 5000u);
}

}  // namespace
}  // namespace tdump::compare
