// A ring on a disk, or with a limit, that holds few passes: the job keeps the space it was
// promised, and the last passes are whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "io/disk_budget.h"
#include "io/pass_store.h"
#include "tests/io/forwarding_env.h"
#include "tests/io/sink_fixture.h"

namespace tdump::io {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr uint64_t kMiB = 1 << 20;

// A disk of `bytes`: a write for which there is no room fails.
class SmallDisk final : public test::ForwardingEnv {
 public:
  explicit SmallDisk(uint64_t bytes) : ForwardingEnv(NewMemoryEnv()), bytes_(bytes) {}

  Result<std::unique_ptr<WritableFile>> CreateExclusive(Path path, int mode) override {
    TDUMP_ASSIGN_OR_RETURN(auto file, base_->CreateExclusive(path, mode));
    if (path.ends_with("manifest.tdm")) return file;  // has its room already
    return std::unique_ptr<WritableFile>(std::make_unique<File>(this, std::move(file)));
  }
  Result<uint64_t> FreeBytes(Path) override { return tells_free ? Free() : uint64_t{1} << 40; }

  uint64_t Free() {
    uint64_t used = job;
    const std::vector<std::string> names = base_->List("run/rank0").value();
    for (const std::string& name : names) used += base_->Stat("run/rank0/" + name).value().bytes;
    return bytes_ - std::min(bytes_, used);
  }

  uint64_t job = 0;  // bytes of its own files
  bool tells_free = true;
  uint64_t least_free = ~uint64_t{0};  // after a write of ours

 private:
  struct File final : test::ForwardingFile {
    File(SmallDisk* disk, std::unique_ptr<WritableFile> base)
        : ForwardingFile(std::move(base)), disk(*disk) {}
    Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) override {
      const uint64_t end = offset + bytes.size();
      if (end > Size() && end - Size() > disk.Free()) return Status(StatusCode::kNoSpace, "full");
      const Status written = ForwardingFile::WriteAt(offset, bytes);
      disk.least_free = std::min(disk.least_free, disk.Free());
      return written;
    }
    SmallDisk& disk;
  };

  const uint64_t bytes_;
};

CaptureSinkOptions RingOf(uint64_t limit, uint64_t left_to_the_job, bool packed = false) {
  return {.arena_bytes = 8 * kMiB,
          .thread = false,
          .disk_limit_bytes = limit,
          .min_free_bytes = left_to_the_job,
          .files = {.single_files = packed ? 0 : ~uint64_t{0}, .ring = true, .ring_bytes = limit}};
}

void Step(SinkRig* rig, uint64_t pass, size_t tensors, size_t bytes) {
  rig->Open(pass);
  for (size_t i = 0; i < tensors; ++i)
    rig->Keep(rig->NewCall(rig->Op("a")), "0",
              Bytes(bytes, static_cast<uint8_t>(31 * pass + i), 3));
  rig->sink->close_pass();
}

// Ordinals of the passes that are there with all of their `tensors`.
std::vector<uint64_t> WholePasses(SinkRig* rig, size_t tensors) {
  std::vector<uint64_t> whole;
  const auto store = PassStore::Open(rig->env, "run");
  EXPECT_TRUE(store.ok()) << store.status().message();
  for (const PassEntry& pass : (*store)->processes().front().passes) {
    if (pass.part || !pass.not_kept.empty() || pass.records != tensors) continue;
    const auto reader = (*store)->OpenPass((*store)->processes().front(), pass);
    std::vector<Damage> damage;
    EXPECT_TRUE(reader.ok() && (*reader)->Verify(&damage).ok());
    EXPECT_THAT(damage, IsEmpty());
    whole.push_back(pass.info.ordinal);
  }
  return whole;
}

// A disk that others write to as well.
class SharedDisk final : public test::ForwardingEnv {
 public:
  explicit SharedDisk(uint64_t bytes) : ForwardingEnv(NewMemoryEnv()), free(bytes) {}
  Result<uint64_t> FreeBytes(Path) override { return free; }
  uint64_t free;
};

TEST(SharedDisk, ProcessesTogetherKeepTheJobsSpace) {
  constexpr size_t kProcesses = 8;
  SharedDisk disk(100 * kMiB);
  std::vector<DiskBudget> budgets;
  for (size_t i = 0; i < kProcesses; ++i) budgets.emplace_back(&disk, "run", 0, 64 * kMiB);
  std::vector<uint64_t> used(kProcesses);
  bool any = true;
  while (any && disk.free > 60 * kMiB) {
    any = false;
    for (size_t i = 0; i < kProcesses; ++i) {
      budgets[i].SetUsed(used[i]);
      if (!budgets[i].Allow(32 << 10, /*payload=*/true)) continue;
      used[i] += 32 << 10;
      disk.free -= 32 << 10;
      any = true;
    }
  }
  EXPECT_GE(disk.free, 63 * kMiB);
  EXPECT_LE(disk.free, 66 * kMiB);
}

TEST(SharedDisk, WhatIsTooMuchIsTold) {
  SharedDisk disk(100 * kMiB);
  DiskBudget budget(&disk, "run", 0, 64 * kMiB);
  EXPECT_FALSE(budget.Allow(50 * kMiB, /*payload=*/true));
  EXPECT_EQ(budget.why(),
            "only 104857600 bytes are free on the disk for 52428800 more, 67108864 are left to the "
            "job");
}

class SmallDiskRing : public ::testing::TestWithParam<bool> {};

// The limit is far above what the disk has: its free bytes are what the ring keeps to.
TEST_P(SmallDiskRing, KeepsTheLastPassesAndLeavesTheJobItsSpace) {
  SmallDisk disk(8 * kMiB);
  SinkRig rig(RingOf(512 * kMiB, 2 * kMiB, GetParam()), &disk);
  constexpr size_t kTensors = 8, kTensor = 60'000;
  for (uint64_t pass = 0; pass < 60; ++pass) Step(&rig, pass, kTensors, kTensor);
  ASSERT_TRUE(rig.sink->Drain(1000));
  EXPECT_FALSE(rig.sink->stopped());
  // The writer holds back less than this.
  EXPECT_GE(disk.least_free, 2 * kMiB - 256 * 1024);
  const auto whole = WholePasses(&rig, kTensors);
  ASSERT_THAT(whole, SizeIs(Ge(4u)));
  EXPECT_EQ(whole.back(), 59u);
  if (!GetParam()) EXPECT_THAT(rig.told, IsEmpty());
  rig.sink.reset();
  rig.manifest.reset();
}

INSTANTIATE_TEST_SUITE_P(Layouts, SmallDiskRing, ::testing::Bool());

// Each of the passes fits, few do together.
TEST_P(SmallDiskRing, KeepsTheLastPassOfThoseThatFillTheLimit) {
  for (const uint64_t limit : {600, 900, 1000, 1300, 1500, 2500}) {
    SCOPED_TRACE(limit);
    SmallDisk disk(64 * kMiB);
    SinkRig rig(RingOf(limit * 1024, 0, GetParam()), &disk);
    for (uint64_t pass = 0; pass < 40; ++pass) Step(&rig, pass, 8, 54'000);
    ASSERT_TRUE(rig.sink->Drain(1000));
    EXPECT_THAT(rig.told, IsEmpty());
    EXPECT_GE(disk.least_free, 64 * kMiB - limit * 1024 - (64 << 10));  // and the manifest
    const auto whole = WholePasses(&rig, 8);
    ASSERT_THAT(whole, Not(IsEmpty()));
    EXPECT_EQ(whole.back(), 39u);
    rig.sink.reset();
    rig.manifest.reset();
  }
}

// The disk is smaller than what was promised to the job: no tensor is written, pass after pass.
TEST(SmallDiskRingAlone, WritesNoTensorWhereTheJobsSpaceIsShortFromTheStart) {
  SmallDisk disk(4 * kMiB);
  SinkRig rig(RingOf(100 * kMiB, 64 * kMiB), &disk);
  for (uint64_t pass = 0; pass < 40; ++pass) Step(&rig, pass, 4, 100'000);
  ASSERT_TRUE(rig.sink->Drain(1000));
  EXPECT_GE(disk.least_free, 3 * kMiB);
  ASSERT_THAT(rig.told, SizeIs(1));
  EXPECT_THAT(rig.told[0], AllOf(HasSubstr("67108864 are left to the job"),
                                 HasSubstr("the ring has no older pass left to remove")));
  for (const PassEntry& pass : rig.Manifest().passes) EXPECT_EQ(pass.payload_bytes, 0u);
  rig.sink.reset();
  rig.manifest.reset();
}

// The job takes the disk for a while: the ring gives way, and goes on when there is room again.
TEST(SmallDiskRingAlone, GivesWayToTheJobAndGoesOnAfterIt) {
  SmallDisk disk(8 * kMiB);
  SinkRig rig(RingOf(64 * kMiB, 2 * kMiB), &disk);
  for (uint64_t pass = 0; pass < 30; ++pass) {
    if (pass >= 10) disk.job = pass < 20 ? std::min(7 * kMiB, disk.job + kMiB) : 0;
    Step(&rig, pass, 8, 60'000);
    EXPECT_GE(disk.Free(), disk.job < 6 * kMiB ? 3 * kMiB / 2 : kMiB / 2) << pass;
  }
  ASSERT_TRUE(rig.sink->Drain(1000));
  EXPECT_THAT(rig.told, SizeIs(1));
  const auto whole = WholePasses(&rig, 8);
  ASSERT_GE(whole.size(), 5u);
  EXPECT_EQ(whole.back(), 29u);
  rig.sink.reset();
  rig.manifest.reset();
}

// A quota, of which the free bytes say nothing: older passes go when a write is refused.
TEST(SmallDiskRingAlone, RemovesOlderPassesWhenTheDiskRefusesAWrite) {
  SmallDisk disk(4 * kMiB);
  disk.tells_free = false;
  SinkRig rig(RingOf(64 * kMiB, 2 * kMiB), &disk);
  for (uint64_t pass = 0; pass < 60; ++pass) Step(&rig, pass, 8, 60'000);
  ASSERT_TRUE(rig.sink->Drain(1000));
  EXPECT_FALSE(rig.sink->stopped());
  EXPECT_THAT(WholePasses(&rig, 8), SizeIs(Ge(3u)));
  rig.sink.reset();
  rig.manifest.reset();
}

}  // namespace
}  // namespace tdump::io
