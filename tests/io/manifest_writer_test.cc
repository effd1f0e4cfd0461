#include "io/manifest_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <latch>
#include <thread>

#include "core/text.h"
#include "io/archive.h"
#include "io/manifest_reader.h"
#include "tests/io/forwarding_env.h"

namespace tdump::io {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kPath[] = "/run/rank0_pid1/manifest.tdm";
constexpr std::chrono::seconds kLong{20};

// Its files stop before a write or fail it when told to.
class GateEnv final : public test::ForwardingEnv {
 public:
  GateEnv() : ForwardingEnv(NewMemoryEnv()) {}

  void HoldNextWrite(std::latch* reached, std::latch* go_on) {
    go_on_ = go_on;
    reached_ = reached;
  }
  void Fail(bool fails) { fails_ = fails; }

  Result<std::unique_ptr<WritableFile>> CreateExclusive(Path path, int mode) override {
    TDUMP_ASSIGN_OR_RETURN(auto file, base_->CreateExclusive(path, mode));
    return std::unique_ptr<WritableFile>(new File(this, std::move(file)));
  }

 private:
  class File final : public test::ForwardingFile {
   public:
    File(GateEnv* env, std::unique_ptr<WritableFile> base)
        : ForwardingFile(std::move(base)), env_(*env) {}
    Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) override {
      if (std::latch* reached = env_.reached_.exchange(nullptr)) {
        reached->count_down();
        env_.go_on_->wait();
      }
      if (env_.fails_) return {StatusCode::kNoSpace, "ENOSPC: no space left"};
      return base_->WriteAt(offset, bytes);
    }
    Status Preallocate(uint64_t, uint64_t, bool) override { return Status(); }

   private:
    GateEnv& env_;
  };

  std::atomic<std::latch*> reached_{nullptr};
  std::latch* go_on_ = nullptr;
  std::atomic<bool> fails_{false};
};

class ManifestWriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(env_.MakeDirs("/run/rank0_pid1", 0700).ok());
    auto writer = ManifestWriter::Create(&env_, kPath, FileHeader{});
    ASSERT_TRUE(writer.ok()) << writer.status().message();
    writer_ = std::move(*writer);
  }

  void AppendStepLater(uint64_t step) {
    StepMapSection entry;
    entry.local_step = step;
    writer_->AppendLater(entry);
  }
  static NoteSection Note(std::string text) { return {1, 0, std::move(text)}; }

  static std::string LackText(uint64_t steps) {
    return "the step map lacks " + Plural(steps, "step") + ": the disk was full, or too slow";
  }
  uint64_t Bytes() { return env_.Stat(kPath)->bytes; }

  // Steps as numbers, notes as their text, in the order of the file.
  std::vector<std::string> Entries() {
    std::vector<std::string> entries;
    std::vector<Damage> damage;
    auto file = FrameFile::Open(&env_, kPath, kManifestMagic);
    EXPECT_TRUE(file.ok()) << file.status().message();
    const auto visit = [&](const Frame&, std::span<const std::byte> body) {
      SectionCursor section(body, false);
      while (section.Next()) {
        if (section.id() == StepMapSection::kId)
          entries.push_back(std::to_string(section.Decode<StepMapSection>()->local_step));
        if (section.id() == NoteSection::kId)
          entries.push_back(section.Decode<NoteSection>()->text);
      }
      return section.status();
    };
    EXPECT_TRUE(ForEachManifestFrame(**file, &damage, visit).ok());
    EXPECT_THAT(damage, IsEmpty());
    return entries;
  }

  GateEnv env_;
  std::unique_ptr<ManifestWriter> writer_;
};

TEST_F(ManifestWriterTest, WhatIsAppendedWhileNobodyWritesIsInTheFile) {
  AppendStepLater(0);
  EXPECT_THAT(Entries(), ElementsAre("0"));
  AppendStepLater(1);
  EXPECT_TRUE(writer_->Append(Note("a")).ok());
  EXPECT_THAT(Entries(), ElementsAre("0", "1", "a"));
}

TEST_F(ManifestWriterTest, AppendLaterDoesNotWaitForADiskThatAnotherThreadWaitsFor) {
  std::latch reached(1), go_on(1);
  env_.HoldNextWrite(&reached, &go_on);
  auto slow = std::async(std::launch::async, [&] { return writer_->Append(Note("slow")); });
  reached.wait();
  auto left = std::async(std::launch::async, [&] {
    AppendStepLater(7);
    AppendStepLater(8);
  });
  EXPECT_EQ(left.wait_for(kLong), std::future_status::ready);
  go_on.count_down();
  EXPECT_TRUE(slow.get().ok());
  left.wait();
  EXPECT_THAT(Entries(), ElementsAre("slow", "7", "8"));
}

TEST_F(ManifestWriterTest, AnAppendAfterwardsComesAfterWhatWasQueued) {
  std::latch reached(1), go_on(1);
  env_.HoldNextWrite(&reached, &go_on);
  auto slow = std::async(std::launch::async, [&] { AppendStepLater(6); });
  reached.wait();
  AppendStepLater(7);
  auto last = std::async(std::launch::async, [&] { return writer_->Append(Note("last")); });
  go_on.count_down();
  slow.wait();
  EXPECT_TRUE(last.get().ok());
  EXPECT_THAT(Entries(), ElementsAre("6", "7", "last"));
}

TEST_F(ManifestWriterTest, AFullDiskIsToldByAppendAndTriedAgain) {
  AppendStepLater(0);
  env_.Fail(true);
  AppendStepLater(1);
  EXPECT_EQ(writer_->Append(Note("lost")).code(), StatusCode::kNoSpace);
  env_.Fail(false);
  AppendStepLater(2);
  EXPECT_TRUE(writer_->Append(Note("told")).ok());
  EXPECT_THAT(Entries(), ElementsAre("0", "1", "2", "told"));
}

// The first 64 KiB survive, and what comes once the disk has taken them.
TEST_F(ManifestWriterTest, WhileTheDiskIsFullTheNewestEntriesAreRefused) {
  const uint64_t empty = Bytes();
  AppendStepLater(0);
  const uint64_t kept = (64 << 10) / (Bytes() - empty);
  env_.Fail(true);
  for (uint64_t step = 1; step <= 10'000; ++step) AppendStepLater(step);
  env_.Fail(false);
  AppendStepLater(10'001);
  EXPECT_TRUE(writer_->Append(Note("told")).ok());
  const std::vector<std::string> entries = Entries();
  ASSERT_EQ(entries.size(), 1 + kept + 2);
  EXPECT_LT(entries.size(), 2'000u);
  for (uint64_t step = 0; step <= kept; ++step) EXPECT_EQ(entries[step], std::to_string(step));
  EXPECT_EQ(entries[kept + 1], LackText(10'001 - kept));
  EXPECT_EQ(entries[kept + 2], "told");
  AppendStepLater(10'002);
  EXPECT_EQ(Entries().back(), "10002");
}

// Those that wait while the disk takes others count too, and none of them is lost when it fails.
TEST_F(ManifestWriterTest, WhatWaitsBesideAWriteThatFailsIsKept) {
  std::latch reached(1), go_on(1);
  env_.HoldNextWrite(&reached, &go_on);
  auto slow = std::async(std::launch::async, [&] { AppendStepLater(0); });
  reached.wait();
  for (uint64_t step = 1; step <= 5'000; ++step) AppendStepLater(step);
  env_.Fail(true);
  go_on.count_down();
  slow.wait();
  env_.Fail(false);
  EXPECT_TRUE(writer_->Append(Note("told")).ok());
  const std::vector<std::string> entries = Entries();
  ASSERT_GT(entries.size(), 500u);
  const uint64_t kept = entries.size() - 2;
  for (uint64_t step = 0; step < kept; ++step) EXPECT_EQ(entries[step], std::to_string(step));
  EXPECT_EQ(entries[kept], LackText(5'001 - kept));
}

// In rounds of fewer entries than may wait beside a thread that is stopped while it writes.
TEST_F(ManifestWriterTest, ManyThreadsLoseNothing) {
  constexpr int kThreads = 4, kRounds = 10, kOfRound = 200, kEach = kRounds * kOfRound;
  for (int round = 0; round < kRounds; ++round) {
    std::latch start(kThreads);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        start.arrive_and_wait();
        for (int i = 0; i < kOfRound; ++i) {
          const int number = t * kEach + round * kOfRound + i;
          if (t % 2 == 0)
            AppendStepLater(static_cast<uint64_t>(number));
          else
            EXPECT_TRUE(writer_->Append(Note(std::to_string(number))).ok());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  std::vector<int> last(kThreads, -1);
  const std::vector<std::string> entries = Entries();
  EXPECT_EQ(entries.size(), size_t{kThreads * kEach});
  for (const std::string& entry : entries) {
    const int number = std::stoi(entry);
    EXPECT_EQ(number % kEach, ++last[number / kEach]);  // of each thread in its order, once
  }
}

}  // namespace
}  // namespace tdump::io
