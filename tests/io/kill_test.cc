// Writers that are killed while they write: what the manifest acknowledges is readable and right,
// nothing is corrupt, and what was committed 0.5 s before the kill is there.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>
#include <type_traits>

#include "io/format.h"
#include "io/node_env.h"
#include "tests/io/forwarding_env.h"
#include "tests/io/kill_check.h"

namespace tdump::io::test {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kPromise = 500 * kMs;  // a record is in the file so long after its commit

// Writers, and how many live at the same time. Under a sanitizer each is many times slower, and so
// few that the promise can be kept at all.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kRounds = 40, kAtOnce = 4;
#else
constexpr int kRounds = 500, kAtOnce = 20;
#endif

struct Committed {
  uint64_t pass = 0;
  uint64_t record = 0;
  int64_t at_ns = 0;
  int64_t disk_ns = 0;  // Oracle::disk_ns then
};

// What a writer says of itself, in memory that outlives it.
struct Oracle {
  std::atomic<uint64_t> commits{0};
  std::atomic<uint64_t> manifest_bytes{0};  // of entries whose write came back
  std::atomic<uint64_t> passes{0};          // entries of finished passes among them
  // What the machine takes from the writer: its own clock thread is late by `stall_ns` at most and
  // was last here at `beat_ns`; calls of the disk took `disk_ns` in all, beyond what the test
  // itself slept, and one began at `in_call_ns` and has not come back.
  std::atomic<int64_t> beat_ns{0};
  std::atomic<int64_t> stall_ns{0};
  std::atomic<int64_t> disk_ns{0};
  std::atomic<int64_t> in_call_ns{0};
  std::atomic<int64_t> slowest_ns{0};  // the longest that the test slept in a write
  Committed log[8192];
};

// The real disk, watched. `slow`: a write takes 1 ms and 10 ms a MiB.
class WatchedEnv final : public ForwardingEnv {
 public:
  WatchedEnv(std::unique_ptr<Env> disk, Oracle* oracle, bool slow)
      : ForwardingEnv(std::move(disk)), oracle_(oracle), slow_(slow) {}
  ~WatchedEnv() override { std::abort(); }  // the writer is killed before

  Result<std::unique_ptr<WritableFile>> CreateExclusive(Path path, int mode) override {
    Result<std::unique_ptr<WritableFile>> file =
        Watched(0, [&] { return base_->CreateExclusive(path, mode); });
    if (!file.ok()) return file;
    const bool manifest = path.ends_with("manifest.tdm");
    return std::unique_ptr<WritableFile>(new File(this, manifest, std::move(*file)));
  }
  Status Rename(Path from, Path to) override {
    return Watched(0, [&] { return base_->Rename(from, to); });
  }

 private:
  class File final : public test::ForwardingFile {
   public:
    File(WatchedEnv* env, bool manifest, std::unique_ptr<WritableFile> base)
        : ForwardingFile(std::move(base)), env_(env), manifest_(manifest) {}
    Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) override {
      Status status = env_->Watched(SleepFor(bytes), [&] { return base_->WriteAt(offset, bytes); });
      if (manifest_ && status.ok()) Acknowledge(offset, bytes);
      return status;
    }
    Result<bool> WriteDirect(uint64_t offset, std::span<const std::byte> bytes) override {
      return env_->Watched(SleepFor(bytes), [&] { return base_->WriteDirect(offset, bytes); });
    }
    Status Preallocate(uint64_t offset, uint64_t bytes, bool or_zeros) override {
      return env_->Watched(0, [&] { return base_->Preallocate(offset, bytes, or_zeros); });
    }
    Status Sync() override {
      return env_->Watched(0, [&] { return base_->Sync(); });
    }
    Status Close() override {
      return env_->Watched(0, [&] { return base_->Close(); });
    }

   private:
    int64_t SleepFor(std::span<const std::byte> bytes) const {
      return env_->slow_ ? kMs + static_cast<int64_t>(bytes.size()) * 10 : 0;
    }
    void Acknowledge(uint64_t offset, std::span<const std::byte> entry) {
      FrameHeader frame;
      std::memcpy(&frame, entry.data(), sizeof frame);
      const bool done = frame.kind == static_cast<uint16_t>(FrameKind::kPassDone);
      if (done && frame.magic == kFrameMagic) env_->oracle_->passes.fetch_add(1);
      env_->oracle_->manifest_bytes.store(offset + entry.size());
    }
    WatchedEnv* const env_;
    const bool manifest_;
  };

  template <class Body>
  std::invoke_result_t<Body> Watched(int64_t sleep_ns, const Body& body) {
    if (sleep_ns > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(sleep_ns));
    const int64_t begin = MonotonicNs();
    oracle_->in_call_ns.store(begin);
    std::invoke_result_t<Body> result = body();
    oracle_->disk_ns.fetch_add(MonotonicNs() - begin);
    oracle_->in_call_ns.store(0);
    oracle_->slowest_ns.store(std::max(sleep_ns, oracle_->slowest_ns.load()));
    return result;
  }

  Oracle* const oracle_;
  const bool slow_;
};

enum class Pace { kSteady, kHasty, kOnePass };  // kHasty: as many passes as possible

enum class Layout { kPass, kPacked, kNode };
constexpr const char* kNodeFile = "node_a_0.tdn";  // of all writers with that layout

struct Round {
  Layout layout;
  bool slow_disk;
  bool large;
  Pace pace;
  unsigned seed;
  std::string directory;
  std::chrono::microseconds lives;
};

[[noreturn]] void Beat(Env* env, Oracle* oracle) {
  for (int64_t last = env->MonotonicNs();;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const int64_t now = env->MonotonicNs();
    oracle->stall_ns.store(std::max(oracle->stall_ns.load(), now - last));
    oracle->beat_ns.store(last = now);
  }
}

void Note(uint64_t pass, uint64_t record, int64_t now_ns, Oracle* oracle) {
  const uint64_t n = oracle->commits.load();
  if (n == std::size(oracle->log)) return;
  oracle->log[n] = {pass, record, now_ns, oracle->disk_ns.load()};
  oracle->commits.store(n + 1);
}

[[noreturn]] void WriteUntilKilled(const Round& round, Oracle* oracle) {
  const std::string run = std::filesystem::path(round.directory).parent_path();
  Env* env =
      new WatchedEnv(NewNodeEnv(Env::Posix(), run, round.layout == Layout::kNode ? kNodeFile : ""),
                     oracle, round.slow_disk);
  SinkRig rig({.arena_bytes = 8 << 20,
               .files = {.single_files = round.layout == Layout::kPass ? ~uint64_t{0} : 0}},
              env, round.directory);
  std::thread beat(Beat, env, oracle);
  std::mt19937 random(round.seed);
  for (uint64_t pass = 0;; ++pass) {
    rig.Open(pass);
    const uint64_t records = round.pace == Pace::kOnePass
                                 ? ~uint64_t{0}
                                 : 1 + random() % (round.pace == Pace::kHasty ? 6 : 60);
    for (uint64_t i = 1; i <= records; ++i) {
      KeepKilledValues(&rig, i, round.large);
      Note(pass, i, env->MonotonicNs(), oracle);
      if (round.pace != Pace::kHasty) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    rig.sink->close_pass();
    if (round.pace == Pace::kHasty && pass % 4 == 3) (void)rig.sink->Drain(1000);
  }
}

struct Killed {
  Round round;
  pid_t pid = 0;
  Oracle* oracle = nullptr;
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

// Records that the promise held for; those that are missing fail the test.
size_t CheckPromise(const Killed& killed, const Left& left) {
  const Oracle& oracle = *killed.oracle;
  const int64_t silent = killed.at_ns - oracle.beat_ns.load();
  const int64_t late = std::max(oracle.stall_ns.load(), silent) - 20 * kMs;
  const int64_t began = oracle.in_call_ns.load();
  const int64_t disk = oracle.disk_ns.load() + (began == 0 ? 0 : killed.at_ns - began);
  const int64_t allowed = kPromise + std::max<int64_t>(late, 0) + 2 * oracle.slowest_ns.load();
  const uint64_t commits = oracle.commits.load();
  size_t promised = 0;
  for (const Committed& commit : std::span(oracle.log).first(commits)) {
    const int64_t age = killed.at_ns - commit.at_ns;
    if (age <= allowed + disk - commit.disk_ns) continue;
    ++promised;
    EXPECT_TRUE(left.records.contains({commit.pass, commit.record}))
        << "pass " << commit.pass << " record " << commit.record << " committed " << age / kMs
        << " ms before the kill; allowed " << (allowed + disk - commit.disk_ns) / kMs;
  }
  return promised;
}

class Kill : public ::testing::Test {
 protected:
  Kill()
      : directory_(std::filesystem::path(testing::TempDir()) /
                   ("tdump_kill_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(directory_);
  }
  ~Kill() override { std::filesystem::remove_all(directory_); }

  std::vector<Killed> StartWriters(int first, std::mt19937* random) {
    std::vector<Killed> writers;
    for (int i = 0; i < kAtOnce; ++i) {
      const unsigned kind = (*random)();
      Round round{.layout = static_cast<Layout>(kind % 3),
                  .slow_disk = (kind & 8) != 0,
                  .large = (kind & 48) == 0,
                  .pace = i % 4 == 0   ? Pace::kHasty
                          : i % 4 == 1 ? Pace::kOnePass
                                       : Pace::kSteady,
                  .seed = static_cast<unsigned>((*random)()),
                  .directory = directory_ / ("rank" + std::to_string(first + i)),
                  .lives = {}};
      const unsigned longest = round.pace == Pace::kHasty ? 60'000 : 1'300'000;
      round.lives = std::chrono::microseconds((*random)() % longest);
      writers.push_back(Start(round));
    }
    std::sort(writers.begin(), writers.end(),
              [](const Killed& a, const Killed& b) { return a.round.lives < b.round.lives; });
    return writers;
  }

  static void KillInTurn(std::vector<Killed>* writers) {
    const auto begin = std::chrono::steady_clock::now();
    for (Killed& writer : *writers) {
      std::this_thread::sleep_until(begin + writer.round.lives);
      writer.at_ns = Env::Posix()->MonotonicNs();
      ASSERT_EQ(::kill(writer.pid, SIGKILL), 0);
    }
    for (Killed& writer : *writers) {
      int status = 0;
      ASSERT_EQ(::waitpid(writer.pid, &status, 0), writer.pid);
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
    }
  }

  const std::filesystem::path directory_;
};

TEST_F(Kill, FiveHundredTimesNothingAcknowledgedIsLost) {
  const char* given = std::getenv("TDUMP_TEST_SEED");
  const auto seed = given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10))
                                     : std::random_device{}();
  std::printf("seed %u (TDUMP_TEST_SEED)\n", seed);
  std::mt19937 random(seed);
  size_t passes = 0, promised[2] = {};  // on the disk as it is, and on the slow one
  for (int first = 0; first < kRounds && !HasFailure(); first += kAtOnce) {
    std::vector<Killed> writers = StartWriters(first, &random);
    ASSERT_NO_FATAL_FAILURE(KillInTurn(&writers));
    for (const Killed& killed : writers) {
      const Round& round = killed.round;
      SCOPED_TRACE(testing::Message()
                   << "seed " << seed << " " << round.directory << " layout "
                   << static_cast<int>(round.layout) << " slow " << round.slow_disk << " large "
                   << round.large << " pace " << static_cast<int>(round.pace) << " lived "
                   << round.lives.count() << " us");
      const Left left = CheckWhatIsLeft(
          RunEnv(), round.directory,
          {killed.oracle->manifest_bytes.load(), killed.oracle->passes.load()}, round.large);
      passes += left.passes;
      promised[round.slow_disk ? 1 : 0] += CheckPromise(killed, left);
      ::munmap(killed.oracle, sizeof(Oracle));
      if (!HasFailure()) std::filesystem::remove_all(round.directory);
    }
    if (!HasFailure()) std::filesystem::remove(directory_ / kNodeFile);
  }
  std::printf(
      "%zu passes acknowledged, %zu and, on a slow disk, %zu records older than the promise\n",
      passes, promised[0], promised[1]);
  EXPECT_GT(passes, static_cast<size_t>(kRounds));
  EXPECT_GT(promised[0], 0u);
  EXPECT_GT(promised[1], 0u);
}

}  // namespace
}  // namespace tdump::io::test
