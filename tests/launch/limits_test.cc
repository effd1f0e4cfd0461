#include "launch/config/limits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <map>
#include <string>

#include "core/env.h"

namespace tdump::launch {
namespace {

constexpr uint64_t kMiB = 1ull << 20;
constexpr uint64_t kGiB = 1ull << 30;

uint64_t InstalledMemory() {
  return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

// /proc and /sys of a node: texts by path.
std::unique_ptr<Env> Node(const std::map<std::string, std::string>& files) {
  auto env = NewMemoryEnv();
  for (const auto& [path, text] : files) {
    EXPECT_TRUE(env->MakeDirs(path.substr(0, path.rfind('/')), 0700).ok());
    EXPECT_TRUE(WriteFileAtomically(env.get(), path, text, 0600).ok());
  }
  return env;
}

uint64_t MemoryOf(const std::map<std::string, std::string>& files) {
  return MemoryOfNode(Node(files).get());
}

TEST(Limits, WithoutCgroupsTheMemoryIsTheNodes) {
  EXPECT_EQ(MemoryOf({}), InstalledMemory());
  EXPECT_EQ(MemoryOf({{"/proc/self/cgroup", ""}}), InstalledMemory());
  EXPECT_EQ(MemoryOf({{"/proc/self/cgroup", "no colons\n0::/gone\n"}}), InstalledMemory());
}

TEST(Limits, CgroupVersion2) {
  EXPECT_EQ(MemoryOf({{"/proc/self/cgroup", "0::/job/step\n"},
                      {"/sys/fs/cgroup/job/step/memory.max", "104857600\n"},
                      {"/sys/fs/cgroup/other/memory.max", "1048576\n"}}),
            100 * kMiB);
  // As a container sees it: its group is the root.
  EXPECT_EQ(
      MemoryOf({{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/memory.max", "104857600\n"}}),
      100 * kMiB);
}

TEST(Limits, CgroupVersion1) {
  const std::string groups = "11:cpu,cpuacct:/c\n9:memory:/slurm/job_7\n1:name=systemd:/s\n";
  EXPECT_EQ(MemoryOf({{"/proc/self/cgroup", groups},
                      {"/sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "209715200\n"},
                      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"},
                      {"/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "1048576\n"},
                      {"/sys/fs/cgroup/memory/s/memory.limit_in_bytes", "1048576\n"}}),
            200 * kMiB);
}

// Both mounted, the memory controller in the first.
TEST(Limits, CgroupsOfBothVersions) {
  EXPECT_EQ(MemoryOf({{"/proc/self/cgroup", "9:memory:/a\n0::/b\n"},
                      {"/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "209715200\n"}}),
            200 * kMiB);
  EXPECT_EQ(MemoryOf({{"/proc/self/cgroup", "9:memory:/a\n0::/b\n"},
                      {"/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "209715200\n"},
                      {"/sys/fs/cgroup/b/memory.max", "104857600\n"}}),
            100 * kMiB);
}

TEST(Limits, AParentMayBeTighter) {
  const std::map<std::string, std::string> node = {
      {"/proc/self/cgroup", "0::/job/step/task\n"},
      {"/sys/fs/cgroup/job/step/task/memory.max", "max\n"},
      {"/sys/fs/cgroup/job/step/memory.max", "209715200\n"},
      {"/sys/fs/cgroup/job/memory.max", "104857600\n"}};
  EXPECT_EQ(MemoryOf(node), 100 * kMiB);
  auto mount = node;
  mount["/sys/fs/cgroup/memory.max"] = "52428800\n";
  EXPECT_EQ(MemoryOf(mount), 50 * kMiB);
  // A group whose file cannot be seen ends nothing.
  auto hidden = node;
  hidden.erase("/sys/fs/cgroup/job/step/memory.max");
  EXPECT_EQ(MemoryOf(hidden), 100 * kMiB);
}

TEST(Limits, WhatIsNoNumberIsNoLimit) {
  for (const char* text : {"max\n", "", "\n", "many", "-1", "99999999999999999999999\n"}) {
    EXPECT_EQ(MemoryOf({{"/proc/self/cgroup", "0::/a\n"}, {"/sys/fs/cgroup/a/memory.max", text}}),
              InstalledMemory())
        << text;
  }
}

TEST(Limits, FivePercentOfTheMemorySharedByTheRanksOfTheNode) {
  const uint64_t none = ~uint64_t{0};
  EXPECT_EQ(AutomaticArena(20 * kGiB, none, 1), kGiB);
  EXPECT_EQ(AutomaticArena(20 * kGiB, none, 8), 128 * kMiB);
  EXPECT_EQ(AutomaticArena(20 * kGiB, none, 0), kGiB);  // not known
  EXPECT_EQ(AutomaticArena(20 * kGiB, none, -1), kGiB);
  // What ulimit leaves is of one process alone.
  EXPECT_EQ(AutomaticArena(80 * kGiB, 10 * kGiB, 1), 512 * kMiB);
  EXPECT_EQ(AutomaticArena(80 * kGiB, 10 * kGiB, 4), 512 * kMiB);
  EXPECT_EQ(AutomaticArena(80 * kGiB, 10 * kGiB, 16), 256 * kMiB);
}

TEST(Limits, TheArenaIsFrom16MiBTo4GiB) {
  const uint64_t none = ~uint64_t{0};
  EXPECT_EQ(AutomaticArena(80 * kGiB, none, 1), 4 * kGiB);
  EXPECT_EQ(AutomaticArena(2048 * kGiB, none, 1), 4 * kGiB);
  EXPECT_EQ(AutomaticArena(none, none, 1), 4 * kGiB);
  EXPECT_EQ(AutomaticArena(320 * kMiB, none, 1), 16 * kMiB);
  EXPECT_EQ(AutomaticArena(20 * kGiB, none, 1024), 16 * kMiB);
  EXPECT_EQ(AutomaticArena(20 * kGiB, 0, 1), 16 * kMiB);
  EXPECT_EQ(AutomaticArena(0, none, 1), 16 * kMiB);
}

TEST(Limits, TheArenaOfACgroup) {
  const auto env =
      Node({{"/proc/self/cgroup", "0::/a\n"}, {"/sys/fs/cgroup/a/memory.max", "838860800\n"}});
  EXPECT_EQ(ArenaBytes(env.get(), 0, 1), 40 * kMiB);  // 5 % of 800 MiB
  EXPECT_EQ(ArenaBytes(env.get(), 0, 2), 20 * kMiB);
  EXPECT_EQ(ArenaBytes(env.get(), 0, 8), 16 * kMiB);
  EXPECT_EQ(ArenaBytes(env.get(), 123, 8), 123u);  // what is configured is taken as it is
}

// Address sanitizer maps terabytes and needs to map more.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Limits, WhatUlimitLeavesTheProcess) {
  const auto env =
      Node({{"/proc/self/cgroup", "0::/a\n"}, {"/sys/fs/cgroup/a/memory.max", "838860800\n"}});
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit before{};
    ASSERT_EQ(::getrlimit(resource, &before), 0);
    rlimit tight = before;
    tight.rlim_cur = 600 * kMiB;
    ASSERT_EQ(::setrlimit(resource, &tight), 0);
    const uint64_t alone = ArenaBytes(env.get(), 0, 1), shared = ArenaBytes(env.get(), 0, 2);
    ASSERT_EQ(::setrlimit(resource, &before), 0);
    EXPECT_EQ(alone, 30 * kMiB);   // 5 % of 600 MiB
    EXPECT_EQ(shared, 20 * kMiB);  // 5 % of 800 MiB / 2
  }
}
#endif

TEST(Limits, TheRunTakesATenthOfTheFreeSpaceAndAtMost100GiB) {
  EXPECT_EQ(RunLimitBytes(0, 50 * kGiB), 5 * kGiB);
  EXPECT_EQ(RunLimitBytes(0, 0), 0u);
  EXPECT_EQ(RunLimitBytes(0, 999 * kGiB), 999 * kGiB / 10);
  EXPECT_EQ(RunLimitBytes(0, 1000 * kGiB), 100 * kGiB);
  EXPECT_EQ(RunLimitBytes(0, ~uint64_t{0}), 100 * kGiB);
  EXPECT_EQ(RunLimitBytes(123, 50 * kGiB), 123u);
  EXPECT_EQ(RunLimitBytes(500 * kGiB, 50 * kGiB), 500 * kGiB);
}

// Slot and manifest of every rank; two packed files of one that records.
TEST(Limits, AnAutomaticLayoutStaysUnderTenThousandFiles) {
  for (const uint64_t world : {1, 2, 3, 7, 8, 64, 1000, 1024, 2000, 2490}) {
    for (const uint64_t writers : {uint64_t{1}, (world + 1) / 2, world}) {
      const uint64_t single = SingleFiles(world, writers);
      EXPECT_LT(writers * (single + 2) + 2 * world, 10'000u) << world << " " << writers;
      // And makes use of them.
      EXPECT_GT(writers * (single + 3) + 2 * world, 9'950u) << world << " " << writers;
    }
  }
  EXPECT_EQ(SingleFiles(1, 1), 9'979u);   // 9,999 - 16 - 2 - 2
  EXPECT_EQ(SingleFiles(100, 100), 95u);  // (9,983 - 400) / 100
  EXPECT_EQ(SingleFiles(2'500, 2'500), 0u);
  EXPECT_EQ(SingleFiles(100'000, 100'000), 0u);  // as few as can be
  EXPECT_EQ(SingleFiles(100'000, 1), 0u);
}

TEST(Limits, RanksThatAreTooManyForAPackedFileEachShareOneANode) {
  EXPECT_FALSE(NeedsNodeFiles(2'495, 2'495));  // 16 + 4 x 2,495 = 9,996
  EXPECT_TRUE(NeedsNodeFiles(2'496, 2'496));
  EXPECT_FALSE(NeedsNodeFiles(4'990, 1));
  EXPECT_TRUE(NeedsNodeFiles(4'991, 1));
}

}  // namespace
}  // namespace tdump::launch
