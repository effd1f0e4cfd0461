// What happens at the cap: pieces, policies, producers that never come back, a fork.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <thread>

#include "core/statistics.h"
#include "io/capture_sink_impl.h"
#include "io/hash.h"
#include "tests/io/forwarding_env.h"
#include "tests/io/resident.h"
#include "tests/io/sink_fixture.h"

namespace tdump::io {
namespace {

using ::testing::HasSubstr;

// 251 is prime to every power of two: no two pieces are equal.
std::vector<std::byte> Distinct(size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i % 251);
  return bytes;
}

// Holds the writer at the creation of a pass file until `go`.
class HeldWriter : public test::ForwardingEnv {
 public:
  HeldWriter() : ForwardingEnv(NewMemoryEnv()) {}
  Result<std::unique_ptr<WritableFile>> CreateExclusive(Path path, int mode) override {
    if (path.ends_with(".part")) go.wait(false);
    return base_->CreateExclusive(path, mode);
  }
  void Go() {
    go = true;
    go.notify_all();
  }
  std::atomic<bool> go{false};
};

// Three times the arena, among other records.
TEST(CaptureLimits, ATensorLargerThanTheArenaComesInPieces) {
  for (const bool thread : {true, false}) {
    SinkRig rig({.arena_bytes = 256 << 10, .thread = thread});
    const OperatorId op = rig.Op("a");
    rig.Open(0);
    const auto before = Bytes(100, 1), large = Distinct(3 * (256 << 10) + 17),
               after = Bytes(100, 2);
    rig.Keep(rig.NewCall(op), "0", before);
    EXPECT_TRUE(rig.Keep(rig.NewCall(op), "1", large).in_pieces);
    rig.Keep(rig.NewCall(op), "2", after);
    rig.Keep(rig.NewCall(op), "3", large, kPartMeta | kPartHash | kPartStats);
    ASSERT_TRUE(rig.sink->Drain(20'000));
    auto reader = rig.Read("pass00000.tdp");
    std::map<std::string, Record> by_arg;
    for (const Record& record : rig.Records("pass00000.tdp")) by_arg[record.key.arg] = record;
    ASSERT_EQ(by_arg.size(), 4u);
    EXPECT_EQ(by_arg["1"].parts_kept, kLevelFull);
    EXPECT_EQ(by_arg["1"].reason, SkipReason::kNone);
    EXPECT_EQ(by_arg["1"].hash, HashPayload(large));
    EXPECT_EQ(by_arg["1"].payload->offset % 64, 0u);
    EXPECT_EQ(rig.Payload(*reader, by_arg["1"]), large);
    EXPECT_EQ(rig.Payload(*reader, by_arg["0"]), before);
    EXPECT_EQ(rig.Payload(*reader, by_arg["2"]), after);
    EXPECT_EQ(by_arg["3"].hash, HashPayload(large));
    EXPECT_EQ(by_arg["3"].parts_kept, kPartMeta | kPartHash | kPartStats);
    std::vector<Damage> damage;
    EXPECT_TRUE(reader->Verify(&damage).ok());
    EXPECT_TRUE(damage.empty()) << damage.front().what;
  }
}

// Reads the first `good` bytes.
class TornPieces final : public PieceSource {
 public:
  explicit TornPieces(uint64_t good) : good_(good) {}
  bool CopyTo(uint64_t offset, std::span<std::byte> out) noexcept override {
    if (offset + out.size() > good_) return false;
    std::memset(out.data(), 7, out.size());
    return true;
  }

 private:
  const uint64_t good_;
};

TEST(CaptureLimits, AStreamThatBreaksOffLeavesMetadataAndAValidFile) {
  SinkRig rig({.arena_bytes = 256 << 10});
  const OperatorId op = rig.Op("a");
  rig.Open(0);
  const int64_t sizes[] = {1 << 20}, strides[] = {1};
  TornPieces torn(100'000);
  rig.sink->stream(rig.NewCall(op), SinkRig::Seen("0", "uint8", sizes, strides), kLevelFull,
                   1 << 20, &torn);
  rig.Keep(rig.NewCall(op), "1", Bytes(1000, 5));
  ASSERT_TRUE(rig.sink->Drain(20'000));
  auto reader = rig.Read("pass00000.tdp");
  std::map<uint64_t, Record> by_id;
  for (const Record& record : rig.Records("pass00000.tdp")) by_id[record.id] = record;
  EXPECT_EQ(by_id[1].reason, SkipReason::kCopyFailed);
  EXPECT_EQ(by_id[1].parts_kept, kPartMeta);
  EXPECT_EQ(rig.Payload(*reader, by_id[2]), Bytes(1000, 5));
  std::vector<Damage> damage;
  EXPECT_TRUE(reader->Verify(&damage).ok());
  EXPECT_TRUE(damage.empty()) << damage.front().what;
}

// The values 0..99 and over again, as float32: what stands for them is worked out by hand.
std::vector<std::byte> Ramp(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 100);
  std::vector<std::byte> bytes(4 * count);
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

void KeepFloats(SinkRig* rig, OperatorId op, const std::vector<std::byte>& bytes,
                Parts parts = kLevelFull) {
  const int64_t sizes[] = {static_cast<int64_t>(bytes.size() / 4)}, strides[] = {1};
  Observation seen = SinkRig::Seen("0", "float32", sizes, strides);
  seen.meta.dtype = MakeDType("float32", 32);
  const Call call = rig->NewCall(op);
  const Slot slot = rig->sink->reserve(call, seen, parts, bytes.size());
  if (slot.data != nullptr) {
    std::memcpy(slot.data, bytes.data(), bytes.size());
    rig->sink->commit(slot);
  } else if (slot.in_pieces) {
    MemoryPieces pieces(bytes);
    rig->sink->stream(call, seen, parts, bytes.size(), &pieces);
  }
}

void ExpectSummary(const Record& record, const std::vector<std::byte>& ramp) {
  EXPECT_EQ(record.reason, SkipReason::kMemoryLimit);
  EXPECT_EQ(record.parts_kept, kPartMeta | kPartHash | kPartStats);
  EXPECT_EQ(record.hash, HashPayload(ramp));
  ASSERT_TRUE(record.statistics.has_value());
  EXPECT_EQ(record.statistics->count, ramp.size() / 4);
  EXPECT_EQ(record.statistics->min, 0);
  EXPECT_EQ(record.statistics->max, 99);
  EXPECT_EQ(record.statistics->mean, 49.5);
  EXPECT_EQ(record.statistics->zeros, ramp.size() / 400);
}

TEST(CaptureLimits, StatisticsAndHashStandForWhatFindsNoRoom) {
  HeldWriter env;
  SinkRig rig({.arena_bytes = 1 << 20, .at_limit = AtLimit::kStats}, &env);
  const OperatorId op = rig.Op("a");
  rig.Open(0);
  const auto ramp = Ramp(30'000);  // 120,000 bytes: eight at most
  for (int i = 0; i < 12; ++i) KeepFloats(&rig, op, ramp);
  const auto large = Ramp(100'000);
  KeepFloats(&rig, op, large);
  KeepFloats(&rig, op, ramp, kPartMeta | kPartHash);
  env.Go();
  ASSERT_TRUE(rig.sink->Drain(20'000));
  std::map<uint64_t, Record> by_id;
  for (const Record& record : rig.Records("pass00000.tdp")) by_id[record.id] = record;
  ASSERT_EQ(by_id.size(), 14u);
  EXPECT_EQ(by_id[14].reason, SkipReason::kNone);  // all that was asked for
  EXPECT_EQ(by_id[14].parts_kept, kPartMeta | kPartHash);
  EXPECT_EQ(by_id[14].hash, HashPayload(ramp));
  EXPECT_EQ(by_id[1].parts_kept, kLevelFull);
  uint64_t summaries = 0;
  for (uint64_t id = 1; id <= 12; ++id) {
    if (by_id[id].parts_kept == kLevelFull) continue;
    ++summaries;
    ExpectSummary(by_id[id], ramp);
  }
  EXPECT_GE(summaries, 4u);
  ExpectSummary(by_id[13], large);
  const ProcessEntry process = rig.Manifest();
  EXPECT_EQ(process.passes.at(0).blocked_ns, 0u);  // nothing was waited for
  EXPECT_EQ(process.counts.at(0).records, 14u);
  EXPECT_EQ(process.counts.at(0).not_kept, summaries + 1);
}

// A step of 200 ms before this one and a share of 20 %: about 40 ms of waiting, then no more.
TEST(CaptureLimits, APassThatWaitedForMoreThanItsShareKeepsStatistics) {
  HeldWriter env;
  SinkRig rig({.arena_bytes = 1 << 20, .max_block = 0.2}, &env);
  const OperatorId op = rig.Op("a");
  rig.Open(0);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  rig.Open(1);
  const auto ramp = Ramp(30'000);
  for (int i = 0; i < 30; ++i) KeepFloats(&rig, op, ramp);
  env.Go();
  ASSERT_TRUE(rig.sink->Drain(20'000));
  const ProcessEntry process = rig.Manifest();
  ASSERT_EQ(process.passes.size(), 2u);
  // Without the share the first that finds no room would wait until the writer goes on, for ever.
  EXPECT_GT(process.passes[1].blocked_ns, 20'000'000u);
  EXPECT_LT(process.passes[1].blocked_ns, 2'000'000'000u);
  uint64_t summaries = 0;
  for (const Record& record : rig.Records("pass00001.tdp"))
    if (record.reason == SkipReason::kMemoryLimit) ++summaries, ExpectSummary(record, ramp);
  EXPECT_GE(summaries, 20u);
  EXPECT_EQ(process.counts.at(0).not_kept, summaries);
  ASSERT_EQ(rig.told.size(), 1u);
  EXPECT_THAT(rig.told[0], HasSubstr("pass 1 waited"));
  EXPECT_THAT(rig.told[0], HasSubstr("memory.max_block (20 % of the step): in the rest of it"));
  ASSERT_EQ(process.notes.size(), 1u);
  EXPECT_EQ(process.notes[0].text, rig.told[0]);
}

TEST(CaptureLimits, AProducerThatNeverCommitsDoesNotStopThePass) {
  SinkRig rig({.arena_bytes = 1 << 20, .commit_wait_ms = 50});
  const OperatorId op = rig.Op("a");
  rig.Open(0);
  const Slot stuck = rig.Keep(rig.NewCall(op), "0", Bytes(1000, 1), kLevelFull, false);
  rig.Keep(rig.NewCall(op), "1", Bytes(1000, 2));
  ASSERT_TRUE(rig.sink->Drain(20'000));
  std::map<uint64_t, Record> by_id;
  for (const Record& record : rig.Records("pass00000.tdp")) by_id[record.id] = record;
  ASSERT_EQ(by_id.size(), 2u);
  EXPECT_EQ(by_id[1].reason, SkipReason::kPassEnded);
  EXPECT_EQ(by_id[1].parts_kept, kPartMeta);
  EXPECT_EQ(by_id[2].parts_kept, kLevelFull);
  rig.sink->commit(stuck);  // late: only gives the room back
  rig.Open(1);
  rig.Keep(rig.NewCall(op), "0", Bytes(1000, 3));
  ASSERT_TRUE(rig.sink->Drain(20'000));
  EXPECT_EQ(rig.Records("pass00001.tdp").size(), 1u);
}

// Many threads, each with payloads of its own, on a real disk: files in memory would count.
class OneCap : public ::testing::Test {
 protected:
  static constexpr uint32_t kThreads = 64, kEach = 40;
  static constexpr uint64_t kArena = 256 << 10;

  // Every tenth is larger than a quarter of the arena. 21 MB of all threads.
  OneCap() {
    for (uint32_t t = 0; t < kThreads; ++t) {
      for (uint32_t i = 0; i < kEach; ++i)
        payloads_.push_back(Bytes(i % 10 == 9 ? 70'000 + t : 500 + 50 * i, uint8_t(t), 7));
    }
  }
  ~OneCap() override { std::filesystem::remove_all(directory_); }

  const std::vector<std::byte>& Payload(uint64_t thread, uint64_t i) const {
    return payloads_[thread * kEach + i];
  }

  // All threads at once; `sets(t, i)`: the filter sets that want record i of thread t.
  void Produce(const std::function<uint64_t(uint32_t, uint32_t)>& sets) {
    const Arena& arena = static_cast<CaptureSinkImpl&>(*rig_.sink).arena();
    ASSERT_EQ(arena.capacity(), kArena);
    const OperatorId op = rig_.Op("a");
    std::atomic<uint64_t> sequence{0}, most{0}, resident{0};
    const uint64_t before = test::ResidentBytes();
    rig_.Open(0);
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (uint32_t i = 0; i < kEach; ++i) {
          Call call;
          call.op = op;
          call.lane = t;
          call.index = i;
          call.begin = ++sequence;
          Keep(call, Payload(t, i), sets(t, i));
          rig_.sink->end_call(call, {}, {});
          Raise(&most, arena.used());
          Raise(&resident, test::ResidentBytes());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_TRUE(rig_.sink->Drain(60'000));
    EXPECT_LE(most, kArena);
    EXPECT_GT(most, kArena / 2);  // it was the bound
    if (test::kMemoryIsOurs) {
      EXPECT_LE(resident, before + kArena + kThreadsAndMetadata);
    }
  }

  void ExpectAllIsThere(const std::function<uint64_t(uint32_t, uint32_t)>& sets) {
    uint64_t records = 0;
    for (const Record& record : rig_.Records("pass00000.tdp")) {
      const auto t = static_cast<uint32_t>(record.key.lane),
                 i = static_cast<uint32_t>(record.key.call);
      EXPECT_EQ(record.hash, HashPayload(Payload(t, i)));
      EXPECT_EQ(record.parts_kept, kLevelFull);
      EXPECT_EQ(record.filter_sets, sets(t, i));
      ++records;
    }
    EXPECT_EQ(records, kThreads * kEach);
    EXPECT_EQ(rig_.Manifest().passes.at(0).calls, kThreads * kEach);
  }

 private:
  static constexpr uint64_t kThreadsAndMetadata = 6 << 20;

  static void Raise(std::atomic<uint64_t>* most, uint64_t value) {
    uint64_t seen = *most;
    while (seen < value && !most->compare_exchange_weak(seen, value)) {
    }
  }

  void Keep(const Call& call, const std::vector<std::byte>& bytes, uint64_t sets) {
    const int64_t sizes[] = {static_cast<int64_t>(bytes.size())}, strides[] = {1};
    Observation seen = SinkRig::Seen("0", "uint8", sizes, strides);
    seen.filter_sets = sets;
    const Slot slot = rig_.sink->reserve(call, seen, kLevelFull, bytes.size());
    if (slot.data != nullptr) {
      std::memcpy(slot.data, bytes.data(), bytes.size());
      rig_.sink->commit(slot);
    } else if (slot.in_pieces) {
      MemoryPieces pieces(bytes);
      rig_.sink->stream(call, seen, kLevelFull, bytes.size(), &pieces);
    }
  }

  const std::string directory_ =
      std::filesystem::path(testing::TempDir()) / ("tdump_one_cap_" + std::to_string(::getpid()));
  std::vector<std::vector<std::byte>> payloads_;
  SinkRig rig_{{.arena_bytes = kArena}, Env::Posix(), directory_};
};

TEST_F(OneCap, SixtyFourThreadsAndASmallArena) {
  const auto one = [](uint32_t, uint32_t) { return uint64_t{1}; };
  ASSERT_NO_FATAL_FAILURE(Produce(one));
  ExpectAllIsThere(one);
}

// As many filter sets as there can be: each thread goes through them, and all sets want every
// eighth record, which is kept once.
TEST_F(OneCap, SixtyThreeFilterSets) {
  const auto sets = [](uint32_t t, uint32_t i) {
    return i % 8 == 0 ? (uint64_t{1} << 63) - 1 : uint64_t{1} << (t + i) % 63;
  };
  ASSERT_NO_FATAL_FAILURE(Produce(sets));
  ExpectAllIsThere(sets);
}

// A copy that is ready after it was asked `polls` times, or fails then.
class TestCopy final : public DeviceCopy {
 public:
  TestCopy(std::vector<std::byte> payload, int polls, State end)
      : payload_(std::move(payload)), polls_(polls), end_(end) {}
  State Poll() noexcept override { return --polls_ > 0 ? State::kPending : end_; }
  std::span<const std::byte> payload() const noexcept override { return payload_; }
  std::string_view error() const noexcept override { return "an illegal memory access"; }
  void Release() noexcept override { ++released; }
  std::atomic<int> released{0};

 private:
  const std::vector<std::byte> payload_;
  int polls_;
  const State end_;
};

TEST(CaptureLimits, CopiesOfDevicesAreWrittenWhenTheyAreReady) {
  SinkRig rig({.arena_bytes = 1 << 20, .commit_wait_ms = 300});
  const OperatorId op = rig.Op("a");
  TestCopy slow(Bytes(1000, 3), 20, DeviceCopy::State::kReady);
  TestCopy fast(Bytes(1000, 4), 1, DeviceCopy::State::kReady);
  TestCopy failed(Bytes(1000, 5), 3, DeviceCopy::State::kFailed);
  TestCopy stuck(Bytes(1000, 6), 1 << 30, DeviceCopy::State::kReady);
  const int64_t sizes[] = {1000}, strides[] = {1};
  rig.Open(0);
  for (TestCopy* copy : {&slow, &fast, &failed, &stuck}) {
    rig.sink->when_ready(rig.NewCall(op), SinkRig::Seen("0", "uint8", sizes, strides), kLevelFull,
                         1000, copy);
  }
  rig.sink->refer(rig.NewCall(op), SinkRig::Seen("1", "uint8", sizes, strides), kLevelFull, 1);
  ASSERT_TRUE(rig.sink->Drain(20'000));
  for (TestCopy* copy : {&slow, &fast, &failed, &stuck}) EXPECT_EQ(copy->released, 1);
  auto reader = rig.Read("pass00000.tdp");
  std::map<uint64_t, Record> by_id;
  for (const Record& record : rig.Records("pass00000.tdp")) by_id[record.id] = record;
  ASSERT_EQ(by_id.size(), 5u);
  EXPECT_EQ(rig.Payload(*reader, by_id[1]), Bytes(1000, 3));
  EXPECT_EQ(rig.Payload(*reader, by_id[2]), Bytes(1000, 4));
  EXPECT_EQ(by_id[3].reason, SkipReason::kDeviceError);
  EXPECT_EQ(by_id[3].reason_detail, "an illegal memory access");
  EXPECT_EQ(by_id[4].reason, SkipReason::kPassEnded);
  EXPECT_EQ(rig.Payload(*reader, by_id[5]), Bytes(1000, 3));
  // After the end nothing is taken, but what comes is released.
  TestCopy late(Bytes(1000, 7), 1, DeviceCopy::State::kReady);
  rig.sink->when_ready(rig.NewCall(op), SinkRig::Seen("0", "uint8", sizes, strides), kLevelFull,
                       1000, &late);
  EXPECT_EQ(late.released, 1);
}

// What a device makes where its staging has no room: digests and statistics, no payload.
class SummaryCopy final : public DeviceCopy {
 public:
  explicit SummaryCopy(std::span<const std::byte> payload) {
    AppendTileDigests(payload, &digests_);
    statistics_.count = statistics_.finite = payload.size();
    statistics_.max = 3;
  }
  State Poll() noexcept override { return State::kReady; }
  std::span<const std::byte> payload() const noexcept override { return {}; }
  const Statistics* statistics() const noexcept override { return &statistics_; }
  std::span<const uint8_t> digests() const noexcept override { return digests_; }
  void Release() noexcept override {}

 private:
  std::vector<uint8_t> digests_;
  Statistics statistics_;
};

TEST(CaptureLimits, ADeviceWithoutRoomForAPayloadGivesItsSummary) {
  SinkRig rig({.arena_bytes = 1 << 20});
  const std::vector<std::byte> payload = Bytes(20'000, 3);
  SummaryCopy copy(payload);
  const int64_t sizes[] = {20'000}, strides[] = {1};
  rig.Open(0);
  const OperatorId op = rig.Op("a");
  rig.sink->when_ready(rig.NewCall(op), SinkRig::Seen("0", "float8_e5m2", sizes, strides),
                       kLevelFull, payload.size(), &copy);
  ASSERT_TRUE(rig.sink->Drain(20'000));
  const std::vector<Record> records = rig.Records("pass00000.tdp");
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].reason, SkipReason::kStagingLimit);
  EXPECT_EQ(records[0].parts_asked, kLevelFull);
  EXPECT_EQ(records[0].parts_kept, kPartMeta | kPartHash | kPartStats);
  ASSERT_TRUE(records[0].hash.has_value());
  EXPECT_EQ(*records[0].hash, HashPayload(payload));
}

// A data loader forks while the writer and what is said to the user are busy: the child neither
// hangs nor writes.
TEST(CaptureLimits, AForkedChildLeavesABusySinkAlone) {
  constexpr size_t kNotes = 100;
  const std::filesystem::path directory =
      std::filesystem::path(testing::TempDir()) / ("tdump_fork_" + std::to_string(::getpid()));
  {
    SinkRig rig({.arena_bytes = 4 << 20}, Env::Posix(), directory.string());
    const OperatorId op = rig.Op("a");
    rig.Open(0);
    std::atomic<bool> stop{false};
    std::thread producer([&] {
      for (uint64_t i = 0; !stop; ++i) {
        Call call;
        call.op = op;
        call.begin = i + 1;
        rig.Keep(call, "0", Bytes(100 + i % 10'000, static_cast<uint8_t>(i), 3));
        if (i % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(500));
      }
    });
    std::thread logger([&] {  // holds the lock of notes most of the time
      for (uint64_t i = 0; !stop; ++i) rig.sink->note("note " + std::to_string(i % kNotes));
    });
    std::vector<pid_t> children;
    for (int child = 0; child < 1000; ++child) {
      const pid_t pid = ::fork();
      if (pid == 0) {
        ::alarm(20);  // a child that hangs is killed and fails the test
        rig.sink->AbandonAfterFork();
        const int64_t sizes[] = {10}, strides[] = {1};
        Call call;
        call.op = op;
        const Slot slot =
            rig.sink->reserve(call, SinkRig::Seen("0", "uint8", sizes, strides), kLevelFull, 10);
        rig.sink->end_call(call, {}, {});
        rig.sink->note("child");
        rig.sink->close_pass();
        const bool drained = rig.sink->Drain(1000);
        rig.sink.reset();
        ::_exit(slot.data == nullptr && drained ? 0 : 1);
      }
      ASSERT_GT(pid, 0);
      children.push_back(pid);
      if (children.size() < 10) continue;
      for (const pid_t one : children) {
        int status = 0;
        ASSERT_EQ(::waitpid(one, &status, 0), one);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
      }
      children.clear();
    }
    stop = true;
    producer.join();
    logger.join();
    ASSERT_TRUE(rig.sink->Drain(60'000));
    auto reader = rig.Read("pass00000.tdp");
    std::vector<Damage> damage;
    EXPECT_TRUE(reader->Verify(&damage).ok());
    EXPECT_TRUE(damage.empty());
    EXPECT_GT(reader->record_count(), 0u);
    const ProcessEntry process = rig.Manifest();
    EXPECT_EQ(process.notes.size(), kNotes);
    for (const NoteSection& note : process.notes) EXPECT_THAT(note.text, HasSubstr("note "));
  }
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace tdump::io
