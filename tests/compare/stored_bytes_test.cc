#include "compare/stored_bytes.h"

#include <gtest/gtest.h>

#include <utility>

#include "core/env.h"

namespace tdump::compare {
namespace {

class StoredBytesTest : public testing::Test {
 protected:
  StoredBytesTest() { EXPECT_TRUE(memory_->MakeDirs("/tmp", 0700).ok()); }
  SpillOptions Options(uint64_t in_memory = 0) {
    return {.env = memory_.get(), .directory = "/tmp", .in_memory = in_memory};
  }

  std::unique_ptr<Env> memory_ = NewMemoryEnv();
};

TEST_F(StoredBytesTest, MoveAndACopyIsInMemory) {
  StoredBytes copy, moved;
  {
    SpillFile file(Options());
    StoredBytes bytes("some bytes"), none;
    bytes.MoveTo(nullptr);
    EXPECT_EQ(bytes.Copy(), "some bytes");
    bytes.MoveTo(&file);
    none.MoveTo(&file);
    EXPECT_TRUE(none.empty());
    EXPECT_FALSE(bytes.empty());
    EXPECT_EQ(file.Get(0), "some bytes");
    copy = bytes;
    moved = std::move(bytes);
    EXPECT_EQ(moved.Copy(), "some bytes");
    moved = StoredBytes("others");
  }
  EXPECT_EQ(copy.Copy(), "some bytes");
  EXPECT_EQ(moved.Copy(), "others");
  StoredBytes& same = copy;
  copy = same;
  EXPECT_EQ(copy.Copy(), "some bytes");
}

TEST_F(StoredBytesTest, StayInMemoryWhereTheFileRefusesThem) {
  StoredBytes bytes("some bytes");
  {
    SpillFile file(Options(1 << 20));
    bytes.MoveTo(&file);
  }
  EXPECT_EQ(bytes.Copy(), "some bytes");
}

TEST_F(StoredBytesTest, AreReadWhereTheyLie) {
  SpillFile file(Options());
  StoredBytes bytes(std::string_view("a\0b", 3)), none;
  const auto size = [](std::string_view read) { return read.size(); };
  EXPECT_EQ(bytes.With(size), 3u);
  EXPECT_EQ(none.With(size), 0u);
  bytes.MoveTo(&file);
  EXPECT_EQ(bytes.With(size), 3u);
  EXPECT_EQ(bytes.Copy(), std::string_view("a\0b", 3));
}

}  // namespace
}  // namespace tdump::compare
