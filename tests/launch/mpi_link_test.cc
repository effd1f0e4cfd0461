// What a process finds about the MPI of its job before anything is sent.
#include "launch/runtime/mpi_link.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tdump::launch {
namespace {

// Thread levels, as every MPI numbers them.
constexpr int kSingle = 0, kSerialized = 2, kMultiple = 3;

Identity RankOf(int32_t rank, int32_t world) {
  Identity identity;
  identity.rank = rank;
  identity.world = world;
  identity.job_key = "job";
  return identity;
}

// Ranks 0, 1, ... of three announce these thread levels; then rank 1 looks.
std::string Found(Env* env, const std::vector<int>& levels) {
  for (size_t i = 0; i < levels.size(); ++i) {
    const Identity identity = RankOf(static_cast<int32_t>(i), 3);
    EXPECT_TRUE(AnnounceMpi(env, "run/clock", identity, levels[i]).ok());
  }
  const Result<std::string> found = WhyNotMpi(env, "run/clock", RankOf(1, 3));
  EXPECT_TRUE(found.ok());
  return found.ok() ? *found : "";
}

TEST(MpiLink, NothingStandsAgainstRanksThatAreAllAnnounced) {
  EXPECT_EQ(Found(NewMemoryEnv().get(), {kSingle, kMultiple, kSingle}), "");
}

TEST(MpiLink, ARankOutsideTdumpIsNamed) {
  EXPECT_EQ(Found(NewMemoryEnv().get(), {kSingle, kSingle}), "rank 2 runs outside tdump");
}

TEST(MpiLink, ARankThatSharesMpiAmongThreadsIsNamed) {
  EXPECT_EQ(Found(NewMemoryEnv().get(), {kSingle, kSerialized, kSingle}),
            "rank 1 asked for MPI_THREAD_SERIALIZED");
}

// Who comes later takes what the first process found, whatever has changed since.
TEST(MpiLink, TheFirstFindingCountsForAll) {
  const auto env = NewMemoryEnv();
  EXPECT_EQ(Found(env.get(), {kSingle, kSingle}), "rank 2 runs outside tdump");
  ASSERT_TRUE(AnnounceMpi(env.get(), "run/clock", RankOf(2, 3), kSingle).ok());
  EXPECT_EQ(*WhyNotMpi(env.get(), "run/clock", RankOf(2, 3)), "rank 2 runs outside tdump");
}

}  // namespace
}  // namespace tdump::launch
