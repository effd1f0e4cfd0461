// A process that made its directory, and of which nothing came to the disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/coverage_text.h"
#include "coordinator/merge.h"
#include "tests/coordinator/run_image.h"

namespace tdump::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EmptyManifestTest : public ::testing::Test {
 protected:
  EmptyManifestTest() : env_(NewMemoryEnv()) {}
  void Leave(const std::string& directory, const std::string& manifest) {
    ASSERT_TRUE(env_->MakeDirs(directory, 0700).ok());
    ASSERT_TRUE(WriteFileAtomically(env_.get(), directory + "/manifest.tdm", manifest, 0600).ok());
  }
  io::RunIndex Merge() {
    auto store = io::PassStore::Open(env_.get(), "run");
    EXPECT_TRUE(store.ok()) << store.status().message();
    store_ = std::move(*store);
    return BuildRunIndex(*store_, 0);
  }

  std::unique_ptr<Env> env_;
  std::unique_ptr<io::PassStore> store_;
};

TEST_F(EmptyManifestTest, IsToldWithBothThatMayHaveHappened) {
  Leave("run/rank0_pid4711", "");
  const io::RunIndex index = Merge();
  EXPECT_THAT(
      index.holes,
      ElementsAre("rank 0 (pid 4711) left no word in its manifest: killed at its start, or "
                  "its disk was full",
                  HasSubstr("file header: 0 bytes, expected 64; not a tdump manifest, or its "
                            "process was killed at its start, or its disk was full")));
  EXPECT_THAT(CoverageText(*store_, index, {}),
              HasSubstr("  ranks      none of 1 rank wrote a pass; rank 0 left no word in its "
                        "manifest: killed at its start, or its disk was full\n"));
}

// The directory says whose it is: rank 0 is not blamed.
TEST_F(EmptyManifestTest, IsThatOfTheRankOfItsDirectory) {
  test::ProcessImage whole(env_.get(), "run", {.rank = 0, .world = 2});
  whole.Pass(0).Exit(1);
  Leave("run/rank1_pid4711", "");
  const io::RunIndex index = Merge();
  EXPECT_TRUE(index.ranks[0].closed);
  EXPECT_EQ(index.ranks[0].processes.size(), 1u);
  EXPECT_THAT(
      CoverageText(*store_, index, {}),
      HasSubstr("  ranks      1 of 2 wrote all 1 step; rank 1 left no word in its manifest: "
                "killed at its start, or its disk was full\n"));
}

}  // namespace
}  // namespace tdump::coordinator
