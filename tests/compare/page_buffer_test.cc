#include "compare/page_buffer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

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

}  // namespace
}  // namespace tdump::compare
