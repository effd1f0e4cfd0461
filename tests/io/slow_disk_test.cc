// L01: a job that makes data faster than the disk takes it. Memory stays below its cap, every drop
// is counted, and nobody waits for ever, not even when the disk fails meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "tests/io/forwarding_env.h"
#include "tests/io/resident.h"
#include "tests/io/sink_fixture.h"

namespace tdump::io {
namespace {

using test::ResidentBytes;

constexpr uint64_t kArena = 2 << 20;
constexpr size_t kBytes = 256 << 10;
constexpr uint64_t kRecords = 4000;  // 1,000 MiB in all, in ten seconds
constexpr std::chrono::microseconds kEach{2500};

// Takes 1 MiB a second; from `fails_after` bytes on every write is an error.
class SlowEnv final : public test::ForwardingEnv {
 public:
  explicit SlowEnv(uint64_t fails_after) : ForwardingEnv(NewMemoryEnv()), left_(fails_after) {}
  Result<std::unique_ptr<WritableFile>> CreateExclusive(Path path, int mode) override {
    TDUMP_ASSIGN_OR_RETURN(auto file, base_->CreateExclusive(path, mode));
    if (!path.ends_with(".part")) return file;
    return std::unique_ptr<WritableFile>(new File(this, std::move(file)));
  }

 private:
  class File final : public test::ForwardingFile {
   public:
    File(SlowEnv* env, std::unique_ptr<WritableFile> base)
        : ForwardingFile(std::move(base)), env_(*env) {}
    Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) override {
      std::this_thread::sleep_for(std::chrono::microseconds(bytes.size()));
      if (bytes.size() > env_.left_) return {StatusCode::kIo, "EIO: the disk went away"};
      env_.left_ -= bytes.size();
      return base_->WriteAt(offset, bytes);
    }
    Status Preallocate(uint64_t, uint64_t, bool) override { return Status(); }

   private:
    SlowEnv& env_;
  };
  uint64_t left_;
};

// 100 MiB a second, or what the sink lets through; the largest growth of resident memory on the
// way.
uint64_t Produce(SinkRig* rig, uint64_t records) {
  const std::vector<std::byte> bytes = Bytes(kBytes, 1, 3);
  const OperatorId op = rig->Op("a");
  const uint64_t before = ResidentBytes();
  uint64_t most = before;
  rig->Open(0);
  auto next = std::chrono::steady_clock::now();
  for (uint64_t i = 0; i < records; ++i) {
    std::this_thread::sleep_until(next);
    next = std::max(next + kEach, std::chrono::steady_clock::now());
    std::vector<std::byte> own = bytes;
    std::memcpy(own.data(), &i, sizeof i);  // not the same content twice
    rig->Keep(rig->NewCall(op), "0", own);
    most = std::max(most, ResidentBytes());
  }
  rig->sink->close_pass();
  return most - before;
}

// The files lie in memory here.
void ExpectBelowTheCap(uint64_t grown, const PassEntry& pass) {
  if (test::kMemoryIsOurs) {
    EXPECT_LE(grown, kArena + pass.file_bytes + (8 << 20));
  }
}

TEST(SlowDisk, DropsAreCountedAndMemoryStaysBelowItsCap) {
  SlowEnv env(~uint64_t{0});
  SinkRig rig({.arena_bytes = kArena, .at_limit = AtLimit::kDrop}, &env);
  const uint64_t grown = Produce(&rig, kRecords);
  ASSERT_TRUE(rig.sink->Drain(120'000));
  const ProcessEntry process = rig.Manifest();
  const PassEntry& pass = process.passes.at(0);
  ASSERT_EQ(pass.not_kept.size(), 1u);
  EXPECT_EQ(pass.not_kept[0].reason, static_cast<uint8_t>(SkipReason::kMemoryLimit));
  const uint64_t kept = pass.payload_bytes / kBytes;
  EXPECT_EQ(kept + pass.not_kept[0].count, kRecords);
  EXPECT_LT(kept, kRecords / 10);
  EXPECT_GE(kept, kArena / kBytes / 2);
  EXPECT_EQ(process.counts.at(0).not_kept, pass.not_kept[0].count);
  ExpectBelowTheCap(grown, pass);
  rig.sink.reset();
  rig.manifest.reset();
}

// What a job that waits makes is all there; its memory is no more than that of one that drops.
TEST(SlowDisk, AJobThatWaitsLosesNothingAndStaysBelowTheCap) {
  constexpr uint64_t kFew = 24;  // 6 MiB: a third finds room at once
  SlowEnv env(~uint64_t{0});
  SinkRig rig({.arena_bytes = kArena, .at_limit = AtLimit::kBlock}, &env);
  const uint64_t grown = Produce(&rig, kFew);
  ASSERT_TRUE(rig.sink->Drain(120'000));
  const ProcessEntry process = rig.Manifest();
  const PassEntry& pass = process.passes.at(0);
  EXPECT_TRUE(pass.not_kept.empty());
  EXPECT_EQ(pass.payload_bytes, kFew * kBytes);
  EXPECT_EQ(process.counts.at(0).not_kept, 0u);
  EXPECT_GT(pass.blocked_ns, 1'000'000'000u);  // of the four seconds that the rest takes
  ExpectBelowTheCap(grown, pass);
  rig.sink.reset();
  rig.manifest.reset();
}

TEST(SlowDisk, ADiskThatFailsWhileTheJobWaitsLetsItGoOn) {
  for (const AtLimit policy : {AtLimit::kBlock, AtLimit::kDrop, AtLimit::kStats}) {
    SlowEnv env(1 << 20);
    SinkRig rig({.arena_bytes = kArena, .at_limit = policy}, &env);
    Produce(&rig, kRecords / 40);  // comes back
    ASSERT_TRUE(rig.sink->Drain(120'000));
    const ProcessEntry process = rig.Manifest();
    EXPECT_THAT(process.passes.at(0).error, testing::HasSubstr("the disk went away"));
    EXPECT_EQ(rig.told.size(), 1u);
    rig.sink.reset();
    rig.manifest.reset();
  }
}

}  // namespace
}  // namespace tdump::io
