// A writer that is killed: what it had committed 0.5 s before is readable, and a final name always
// means a whole file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <set>
#include <thread>

#include "io/pass_store.h"
#include "tests/io/forwarding_env.h"
#include "tests/io/sink_fixture.h"

namespace tdump::io {
namespace {

using ::testing::IsEmpty;

constexpr int64_t kMs = 1'000'000;

std::vector<std::byte> Values(uint64_t pass, uint64_t i) {
  return Bytes(100 + i % 50, static_cast<uint8_t>(31 * pass + i), 7);
}

std::vector<std::byte> Weights() { return Bytes(20'000, 5, 11); }

struct Committed {
  uint64_t pass;
  uint64_t record;
  int64_t at_ns;
};

// A child process that writes below `directory` until it is killed. `program` gets the rig and a
// function that tells the parent of a commit.
class Writer {
 public:
  using Tell = std::function<void(uint64_t pass, uint64_t record)>;

  Writer(const std::string& directory, const std::function<void(SinkRig*, const Tell&)>& program) {
    EXPECT_EQ(::pipe(pipe_), 0);
    pid_ = ::fork();
    if (pid_ != 0) {
      ::close(pipe_[1]);
      return;
    }
    SinkRig rig({}, Env::Posix(), directory);
    program(&rig, [&](uint64_t pass, uint64_t record) {
      const Committed committed{pass, record, Env::Posix()->MonotonicNs()};
      if (::write(pipe_[1], &committed, sizeof committed) < 0) ::_exit(1);
    });
    ::_exit(0);
  }

  // Waits for the first commit, then `after`, then kills. Returns the time of the kill.
  int64_t KillAfter(std::chrono::microseconds after) {
    Take();
    std::this_thread::sleep_for(after);
    const int64_t now = Env::Posix()->MonotonicNs();
    EXPECT_EQ(::kill(pid_, SIGKILL), 0);
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    EXPECT_TRUE(WIFSIGNALED(status));
    while (Take()) {
    }
    ::close(pipe_[0]);
    return now;
  }
  const std::vector<Committed>& committed() const { return committed_; }

 private:
  bool Take() {
    Committed committed;
    if (::read(pipe_[0], &committed, sizeof committed) != sizeof committed) return false;
    committed_.push_back(committed);
    return true;
  }

  int pipe_[2];
  pid_t pid_;
  std::vector<Committed> committed_;
};

class Kill : public ::testing::Test {
 protected:
  Kill()
      : directory_(std::filesystem::path(testing::TempDir()) /
                   ("tdump_kill_" + std::to_string(::getpid()))) {}
  ~Kill() override { std::filesystem::remove_all(directory_); }

  const std::filesystem::path directory_;
};

// Every record that can be read has the values that were committed. Returns their ids.
std::set<uint64_t> RightRecords(const PassReader& reader) {
  std::set<uint64_t> found;
  EXPECT_TRUE(reader
                  .ForEachRecord([&](const Record& record) {
                    std::vector<std::byte> values(record.payload->logical_bytes);
                    EXPECT_TRUE(reader.ReadPayload(record, 0, values).ok());
                    const bool weights = record.id == 1 && values.size() == Weights().size();
                    EXPECT_EQ(values,
                              weights ? Weights() : Values(reader.info().ordinal, record.id));
                    EXPECT_EQ(record.key.path, "layer." + std::to_string(record.id % 7));
                    return found.insert(record.id).second;
                  })
                  .ok());
  return found;
}

TEST_F(Kill, WhatIsOlderThanHalfASecondIsReadable) {
  Writer writer(directory_, [](SinkRig* rig, const Writer::Tell& tell) {
    rig->Open(0);
    for (uint64_t i = 1;; ++i) {
      const Call call = rig->NewCall(rig->Op("layer." + std::to_string(i % 7)));
      rig->Keep(call, "", Values(0, i));
      rig->sink->end_call(call, {}, "");
      tell(0, i);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  const int64_t killed = writer.KillAfter(std::chrono::milliseconds(1100));
  const auto reader = PassReader::Open(Env::Posix(), (directory_ / "pass00000.tdp.part").string());
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_FALSE((*reader)->complete());
  const std::set<uint64_t> found = RightRecords(**reader);
  size_t old = 0;
  for (const Committed& commit : writer.committed()) {
    if (commit.at_ns > killed - 500 * kMs) continue;
    ++old;
    EXPECT_TRUE(found.contains(commit.record)) << "record " << commit.record;
  }
  EXPECT_GT(old, 10u);
}

// ---- 500 kills ----

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kRounds = 40;
#else
constexpr int kRounds = 500;
#endif
constexpr int kAtOnce = 20;  // writers that live at the same time

// What a writer says of itself, in memory that outlives it.
struct Oracle {
  std::atomic<uint64_t> commits{0};
  std::atomic<int64_t> beat_ns{0};   // its own clock thread was here
  std::atomic<int64_t> stall_ns{0};  // the longest time between two beats
  std::atomic<int64_t> write_ns{0};  // the longest that one write to the disk took
  Committed log[8192];
};

// A disk that takes its time: 1 ms a call and 10 ms a MiB.
class SlowEnv final : public test::ForwardingEnv {
 public:
  SlowEnv(std::unique_ptr<Env> base, Oracle* oracle)
      : ForwardingEnv(std::move(base)), oracle_(oracle) {}
  Result<std::unique_ptr<WritableFile>> CreateExclusive(Path path, int mode) override {
    TDUMP_ASSIGN_OR_RETURN(auto file, base_->CreateExclusive(path, mode));
    return std::unique_ptr<WritableFile>(new File(oracle_, std::move(file)));
  }

 private:
  class File final : public WritableFile {
   public:
    File(Oracle* oracle, std::unique_ptr<WritableFile> base)
        : oracle_(oracle), base_(std::move(base)) {}
    Status Append(std::span<const std::byte> bytes) override {
      return Timed(bytes.size(), [&] { return base_->Append(bytes); });
    }
    Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) override {
      return Timed(bytes.size(), [&] { return base_->WriteAt(offset, bytes); });
    }
    Status Preallocate(uint64_t offset, uint64_t bytes, bool or_zeros) override {
      return base_->Preallocate(offset, bytes, or_zeros);
    }
    Status Truncate(uint64_t bytes) override { return base_->Truncate(bytes); }
    Status Sync() override { return base_->Sync(); }
    Status Close() override { return base_->Close(); }
    uint64_t Size() const override { return base_->Size(); }

   private:
    Status Timed(size_t bytes, const std::function<Status()>& write) {
      const int64_t before = Env::Posix()->MonotonicNs();
      std::this_thread::sleep_for(std::chrono::microseconds(1000 + bytes / 100));
      Status status = write();
      const int64_t took = Env::Posix()->MonotonicNs() - before;
      oracle_->write_ns.store(std::max(took, oracle_->write_ns.load()));
      return status;
    }
    Oracle* const oracle_;
    const std::unique_ptr<WritableFile> base_;
  };
  Oracle* const oracle_;
};

// Env::Posix(), which nobody owns.
class PosixForwardingEnv final : public test::ForwardingEnv {
 public:
  PosixForwardingEnv() : ForwardingEnv(std::unique_ptr<Env>(Env::Posix())) {}
  ~PosixForwardingEnv() override { std::abort(); }  // the writer is killed before
};

struct Round {
  bool packed;
  bool slow_disk;
  bool hasty;  // as many passes as possible, instead of a record every millisecond
  unsigned seed;
  std::string directory;
  std::chrono::microseconds lives;
};

// Weights that never change in record 1, then other values. Never returns.
[[noreturn]] void WriteUntilKilled(const Round& round, Oracle* oracle) {
  Env* env = new PosixForwardingEnv;
  if (round.slow_disk) env = new SlowEnv(std::unique_ptr<Env>(env), oracle);
  SinkRig rig({.arena_bytes = 8 << 20, .files = {.single_files = round.packed ? 0 : ~uint64_t{0}}},
              env, round.directory);
  std::thread beat([&] {
    for (int64_t last = env->MonotonicNs();;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      const int64_t now = env->MonotonicNs();
      oracle->stall_ns.store(std::max(oracle->stall_ns.load(), now - last));
      oracle->beat_ns.store(last = now);
    }
  });
  std::mt19937 random(round.seed);
  for (uint64_t pass = 0;; ++pass) {
    rig.Open(pass);
    const uint64_t records = 1 + random() % (round.hasty ? 6 : 60);
    for (uint64_t i = 1; i <= records; ++i) {
      const Call call = rig.NewCall(rig.Op("layer." + std::to_string(i % 7)));
      rig.Keep(call, "", i == 1 ? Weights() : Values(pass, i));
      const uint64_t n = oracle->commits.load();
      if (n < std::size(oracle->log)) {
        oracle->log[n] = {pass, i, env->MonotonicNs()};
        oracle->commits.store(n + 1);
      }
      rig.sink->end_call(call, {}, "");
      if (!round.hasty) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    rig.sink->close_pass();
    if (round.hasty && pass % 4 == 3) (void)rig.sink->Drain(1000);
  }
}

struct Killed {
  Round round;
  pid_t pid;
  Oracle* oracle;
  int64_t at_ns = 0;
};

Killed Start(const Round& round) {
  void* memory =
      ::mmap(nullptr, sizeof(Oracle), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(memory, MAP_FAILED);
  Killed killed{round, 0, new (memory) Oracle};
  killed.pid = ::fork();
  if (killed.pid == 0) WriteUntilKilled(round, killed.oracle);
  return killed;
}

// Every pass that the manifest acknowledges is whole and right; every other reads as far as it
// goes; what was committed long enough before the kill is there. Returns the number of acknowledged
// passes.
size_t CheckWhatIsLeft(const Killed& killed) {
  const auto store = PassStore::Open(Env::Posix(), killed.round.directory);
  if (!store.ok()) return 0;  // killed before it made the directory
  std::set<std::pair<uint64_t, uint64_t>> found;
  size_t acknowledged = 0;
  for (const ProcessEntry& process : (*store)->processes()) {
    for (const Damage& item : process.damage) {
      if (item.what.ends_with("killed at its start")) continue;
      // The kernel may cut a write at a page when the process is killed in it: an entry of the
      // manifest that was never acknowledged.
      const bool tail = item.file.ends_with("manifest.tdm");
      if (tail && item.what.ends_with("reading stopped here")) continue;
      ADD_FAILURE() << item.file << ", byte " << item.offset << ": " << item.what;
    }
    for (const PassEntry& pass : process.passes) {
      EXPECT_TRUE(pass.error.empty() || (pass.part && pass.error.ends_with("killed at its start")))
          << pass.error;
      const auto reader = (*store)->OpenPass(process, pass);
      if (!reader.ok()) {
        EXPECT_TRUE(pass.part && !pass.listed) << reader.status().message();
        continue;
      }
      for (const uint64_t record : RightRecords(**reader)) found.emplace(pass.info.ordinal, record);
      if (!pass.listed) continue;
      ++acknowledged;
      EXPECT_FALSE(pass.part);
      EXPECT_TRUE((*reader)->complete());
      EXPECT_EQ((*reader)->record_count(), pass.records);
      std::vector<Damage> damage;
      EXPECT_TRUE((*reader)->Verify(&damage).ok());
      EXPECT_THAT(damage, IsEmpty());
    }
  }
  // A machine that does not run the writer, or a disk that does not take the bytes, adds to it.
  const int64_t silent = killed.at_ns - killed.oracle->beat_ns.load();
  const int64_t late = std::max(killed.oracle->stall_ns.load(), silent) - 20 * kMs;
  const int64_t allowance =
      500 * kMs + std::max<int64_t>(late, 0) + 2 * killed.oracle->write_ns.load();
  const uint64_t commits = killed.oracle->commits.load();
  for (uint64_t i = 0; i < commits; ++i) {
    const Committed& commit = killed.oracle->log[i];
    if (commit.at_ns > killed.at_ns - allowance) continue;
    EXPECT_TRUE(found.contains({commit.pass, commit.record}))
        << "pass " << commit.pass << " record " << commit.record << " committed "
        << (killed.at_ns - commit.at_ns) / kMs << " ms before the kill; allowed "
        << allowance / kMs;
  }
  return acknowledged;
}

TEST_F(Kill, FiveHundredTimesNothingAcknowledgedIsLost) {
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  size_t acknowledged = 0;
  std::filesystem::create_directories(directory_);
  for (int first = 0; first < kRounds && !HasFailure(); first += kAtOnce) {
    std::vector<Killed> writers;
    for (int i = 0; i < kAtOnce; ++i) {
      const unsigned kind = random();
      Round round{.packed = (kind & 1) != 0,
                  .slow_disk = (kind & 2) != 0,
                  .hasty = i % 4 == 0,
                  .seed = static_cast<unsigned>(random()),
                  .directory = directory_ / std::to_string(first + i),
                  .lives = {}};
      round.lives = std::chrono::microseconds(random() % (round.hasty ? 60'000 : 1'300'000));
      writers.push_back(Start(round));
    }
    std::sort(writers.begin(), writers.end(),
              [](const Killed& a, const Killed& b) { return a.round.lives < b.round.lives; });
    const auto begin = std::chrono::steady_clock::now();
    for (Killed& writer : writers) {
      std::this_thread::sleep_until(begin + writer.round.lives);
      writer.at_ns = Env::Posix()->MonotonicNs();
      ASSERT_EQ(::kill(writer.pid, SIGKILL), 0);
    }
    for (Killed& writer : writers) {
      int status = 0;
      ASSERT_EQ(::waitpid(writer.pid, &status, 0), writer.pid);
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
      SCOPED_TRACE(testing::Message()
                   << "seed " << seed << " " << writer.round.directory << " packed "
                   << writer.round.packed << " slow " << writer.round.slow_disk << " hasty "
                   << writer.round.hasty << " lived " << writer.round.lives.count() << " us");
      acknowledged += CheckWhatIsLeft(writer);
      ::munmap(writer.oracle, sizeof(Oracle));
      if (!HasFailure()) std::filesystem::remove_all(writer.round.directory);
    }
  }
  EXPECT_GT(acknowledged, static_cast<size_t>(kRounds));
}

}  // namespace
}  // namespace tdump::io
