#include "io/capture_sink.h"
#include "core/argument_list.h"
#include "core/call_text.h"

#include <atomic>
#include <cstdio>
#include <set>
#include <thread>

#include "io/hash.h"
#include "tests/io/forwarding_env.h"
#include "tests/io/sink_fixture.h"

namespace tdump::io {
namespace {

TEST(CaptureSink, KeepsARecordUnderItsName) {
  SinkRig rig;
  const OperatorId op = rig.Op("encoder.layer.0.dense");
  rig.Open(3);
  Call call = rig.NewCall(op);
  call.index = 2;
  call.micro = 1;
  const auto bytes = Bytes(100, 7);
  rig.Keep(call, "0", bytes);
  call.end = ++rig.sequence;
  ArgumentList arguments;
  arguments.Add(Role::kOutput, "0", MakeDType("uint8", 8), std::vector<int64_t>{100});
  CallText text;
  text.AddDouble("p", 0.1);
  rig.sink->end_call(call, arguments.bytes(), text.bytes());
  ASSERT_TRUE(rig.sink->Drain(5000));

  auto reader = rig.Read("pass00003.tdp");
  ASSERT_NE(reader, nullptr);
  EXPECT_TRUE(reader->complete());
  EXPECT_EQ(reader->info().ordinal, 3u);
  EXPECT_EQ(reader->record_count(), 1u);
  const Record record = rig.Records("pass00003.tdp").at(0);
  EXPECT_EQ(ToText(record.key), "encoder.layer.0.dense::call2@output#0~m1");
  EXPECT_EQ(record.id, 1u);
  EXPECT_EQ(record.dtype.view(), "uint8");
  EXPECT_EQ(record.sizes, std::vector<int64_t>{100});
  EXPECT_EQ(record.parts_kept, kLevelFull);
  EXPECT_EQ(record.hash, HashPayload(bytes));
  EXPECT_EQ(rig.Payload(*reader, record), bytes);
  EXPECT_EQ(record.payload->offset % 64, 0u);
  std::vector<CallRecord> calls;
  ASSERT_TRUE(
      reader->ForEachCall([&](const CallRecord& c) { return calls.push_back(c), true; }).ok());
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].text, "p=0.1");
  EXPECT_EQ(calls[0].arguments.at(0).sizes, std::vector<int64_t>{100});
  std::vector<Damage> damage;
  EXPECT_TRUE(reader->Verify(&damage).ok());
  EXPECT_TRUE(damage.empty());
}

TEST(CaptureSink, KnowsWhetherTheOpenPassHasABackward) {
  SinkRig rig;
  Call call = rig.NewCall(rig.Op("a"));
  EXPECT_FALSE(rig.sink->has_backward());
  rig.Open(0);
  rig.Keep(call, "0", Bytes(10, 1));
  EXPECT_FALSE(rig.sink->has_backward());
  call.phase = Phase::kBackward;
  rig.Keep(call, "0", Bytes(10, 1));
  EXPECT_TRUE(rig.sink->has_backward());
  rig.Open(1);
  EXPECT_FALSE(rig.sink->has_backward());
}

TEST(CaptureSink, ManifestCountsWhatThePassHolds) {
  SinkRig rig;
  const OperatorId op = rig.Op("a");
  rig.sink->expect(op);
  rig.sink->expect(op);
  rig.Open(0);
  Call call = rig.NewCall(op);
  rig.Keep(call, "0", Bytes(10, 1));
  rig.sink->skip(call, SinkRig::Seen("1", "uint8", {}, {}), kLevelFull, SkipReason::kLayout,
                 "sparse_coo");
  rig.sink->end_call(call, {}, {});
  rig.sink->note("torch.compile region not captured");
  rig.sink->note("torch.compile region not captured");
  ASSERT_TRUE(rig.sink->Drain(5000));

  const ProcessEntry process = rig.Manifest();
  ASSERT_EQ(process.passes.size(), 1u);
  EXPECT_EQ(process.passes[0].records, 2u);
  EXPECT_EQ(process.passes[0].calls, 1u);
  EXPECT_EQ(process.passes[0].payload_bytes, 10u);
  EXPECT_EQ(process.passes[0].error, "");
  ASSERT_EQ(process.passes[0].not_kept.size(), 1u);
  EXPECT_EQ(process.passes[0].not_kept[0].reason, static_cast<uint8_t>(SkipReason::kLayout));
  EXPECT_EQ(process.passes[0].not_kept[0].count, 1u);
  ASSERT_EQ(process.expected.size(), 1u);
  EXPECT_EQ(process.expected[0].path, "a");
  ASSERT_EQ(process.counts.size(), 1u);
  EXPECT_EQ(process.counts[0].calls, 1u);
  EXPECT_EQ(process.counts[0].records, 2u);
  EXPECT_EQ(process.counts[0].not_kept, 1u);
  ASSERT_EQ(process.notes.size(), 1u);
  EXPECT_EQ(process.notes[0].level, 3);
  const auto records = rig.Records("pass00000.tdp");
  EXPECT_EQ(records.at(1).reason, SkipReason::kLayout);
  EXPECT_EQ(records.at(1).reason_detail, "sparse_coo");
  EXPECT_EQ(records.at(1).parts_kept, kPartMeta);
}

TEST(CaptureSink, EqualContentIsStoredOnce) {
  SinkRig rig;
  const OperatorId op = rig.Op("a");
  rig.Open(0);
  const auto bytes = Bytes(1000, 3), other = Bytes(1000, 4);
  rig.Keep(rig.NewCall(op), "0", bytes);
  rig.Keep(rig.NewCall(op), "0", bytes);
  rig.Keep(rig.NewCall(op), "0", other);
  rig.Keep(rig.NewCall(op), "0", bytes, kLevelFull, true,
           "int8");  // another dtype: its own payload
  rig.Keep(rig.NewCall(op), "0", bytes, kPartMeta | kPartHash);
  ASSERT_TRUE(rig.sink->Drain(5000));
  auto reader = rig.Read("pass00000.tdp");
  const auto records = rig.Records("pass00000.tdp");
  ASSERT_EQ(records.size(), 5u);
  EXPECT_EQ(records[0].payload->same_as, 0u);
  EXPECT_EQ(records[1].payload->same_as, 1u);
  EXPECT_EQ(records[1].payload->offset, records[0].payload->offset);
  EXPECT_EQ(records[2].payload->same_as, 0u);
  EXPECT_EQ(records[3].payload->same_as, 0u);
  EXPECT_FALSE(records[4].payload.has_value());
  EXPECT_EQ(records[4].hash, HashPayload(bytes));
  EXPECT_EQ(rig.Payload(*reader, records[1]), bytes);
  EXPECT_EQ(rig.Payload(*reader, records[2]), other);
  EXPECT_EQ(rig.Manifest().passes.at(0).payload_bytes, 3000u);
}

TEST(CaptureSink, ReferSharesAPayloadEvenBeforeItIsCommitted) {
  SinkRig rig;
  const OperatorId op = rig.Op("a"), inner = rig.Op("a", "aten::mm");
  rig.Open(0);
  const auto bytes = Bytes(64, 9);
  const int64_t sizes[] = {64}, strides[] = {1};
  Slot slot = rig.Keep(rig.NewCall(inner), "0", bytes, kLevelFull, /*commit=*/false);
  rig.sink->refer(rig.NewCall(op), SinkRig::Seen("0", "uint8", sizes, strides), kLevelFull,
                  slot.record);
  rig.sink->refer(rig.NewCall(op), SinkRig::Seen("1", "uint8", sizes, strides), kLevelFull,
                  2);                                          // of a referring one
  std::this_thread::sleep_for(std::chrono::milliseconds(60));  // the writer has seen both by now
  rig.sink->commit(slot);
  const Slot gone = rig.Keep(rig.NewCall(op), "2", bytes, kLevelFull, false);
  rig.sink->abandon(gone, SkipReason::kCopyFailed);
  rig.sink->refer(rig.NewCall(op), SinkRig::Seen("3", "uint8", sizes, strides), kLevelFull,
                  gone.record);
  ASSERT_TRUE(rig.sink->Drain(5000));
  auto reader = rig.Read("pass00000.tdp");
  std::map<uint64_t, Record> by_id;
  for (const Record& record : rig.Records("pass00000.tdp")) by_id[record.id] = record;
  ASSERT_EQ(by_id.size(), 5u);
  EXPECT_EQ(by_id[2].payload->same_as, 1u);
  EXPECT_EQ(by_id[3].payload->same_as, 1u);
  EXPECT_EQ(by_id[2].hash, HashPayload(bytes));
  EXPECT_EQ(rig.Payload(*reader, by_id[3]), bytes);
  EXPECT_EQ(by_id[4].reason, SkipReason::kCopyFailed);
  EXPECT_EQ(by_id[5].reason, SkipReason::kCopyFailed);
  EXPECT_EQ(by_id[5].parts_kept, kPartMeta);
}

TEST(CaptureSink, EmptyTensorIsCompleteAtReserve) {
  SinkRig rig;
  rig.Open(0);
  const Slot slot = rig.Keep(rig.NewCall(rig.Op("a")), "0", {});
  EXPECT_EQ(slot.data, nullptr);
  EXPECT_EQ(slot.record, 1u);
  ASSERT_TRUE(rig.sink->Drain(5000));
  const Record record = rig.Records("pass00000.tdp").at(0);
  EXPECT_EQ(record.parts_kept, kLevelFull);
  EXPECT_EQ(record.payload->logical_bytes, 0u);
  // XXH3-128 of nothing (xxhash's own published vector).
  const Hash128 empty = {0x99, 0xaa, 0x06, 0xd3, 0x01, 0x47, 0x98, 0xd8,
                         0x60, 0x01, 0xc3, 0x24, 0x46, 0x8d, 0x49, 0x7f};
  EXPECT_EQ(record.hash, empty);
  EXPECT_EQ(rig.Manifest().passes.at(0).not_kept.size(), 0u);
}

TEST(CaptureSink, LargePayloadStartsAtAPage) {
  SinkRig rig;
  const OperatorId op = rig.Op("a");
  rig.Open(0);
  rig.Keep(rig.NewCall(op), "0", Bytes(3, 1));
  const auto large = Bytes((1 << 20) + 5, 2, 13);
  rig.Keep(rig.NewCall(op), "0", large);
  ASSERT_TRUE(rig.sink->Drain(5000));
  auto reader = rig.Read("pass00000.tdp");
  const Record record = rig.Records("pass00000.tdp").at(1);
  EXPECT_EQ(record.payload->offset % 4096, 0u);
  EXPECT_EQ(record.tile_digests.size(), 65u * 16);
  EXPECT_EQ(rig.Payload(*reader, record), large);
}

TEST(CaptureSink, APassWithoutRecordsHasAFileAndNothingIsThereBefore) {
  SinkRig rig;
  EXPECT_EQ(rig.env->List(rig.directory)->size(), 1u);  // the manifest
  rig.Open(0);
  EXPECT_EQ(rig.env->List(rig.directory)->size(), 1u);
  ASSERT_TRUE(rig.sink->Drain(5000));
  auto reader = rig.Read("pass00000.tdp");
  EXPECT_TRUE(reader->complete());
  EXPECT_EQ(reader->record_count(), 0u);
}

TEST(CaptureSink, WritesWithoutAThreadAtTheEndOfThePass) {
  SinkRig rig({.thread = false});
  const OperatorId op = rig.Op("a");
  rig.Open(0);
  rig.Keep(rig.NewCall(op), "0", Bytes(10, 1));
  EXPECT_EQ(rig.env->List(rig.directory)->size(), 1u);
  rig.sink->close_pass();
  EXPECT_EQ(rig.Records("pass00000.tdp").size(), 1u);
  rig.Open(1);
  rig.Keep(rig.NewCall(op), "0", Bytes(10, 1));
  rig.Open(2);  // closes 1
  EXPECT_EQ(rig.Records("pass00001.tdp").size(), 1u);
}

TEST(CaptureSink, ACommitAfterTheCloseStillCounts) {
  SinkRig rig;
  const OperatorId op = rig.Op("a");
  rig.Open(0);
  const Slot slot = rig.Keep(rig.NewCall(op), "0", Bytes(10, 1), kLevelFull, false);
  rig.Open(1);
  rig.Keep(rig.NewCall(op), "0", Bytes(20, 1));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(rig.env->Stat(rig.directory + "/pass00000.tdp").ok());  // waits for the slot
  rig.sink->commit(slot);
  ASSERT_TRUE(rig.sink->Drain(5000));
  EXPECT_EQ(rig.Records("pass00000.tdp").at(0).parts_kept, kLevelFull);
  EXPECT_EQ(rig.Records("pass00001.tdp").size(), 1u);
}

TEST(CaptureSink, ARecordOfAPassThatIsGoneIsCounted) {
  SinkRig rig;
  const OperatorId op = rig.Op("a");
  rig.Open(0);
  const Call call = rig.NewCall(op);
  ASSERT_TRUE(rig.sink->Drain(5000));
  rig.Open(1);
  EXPECT_EQ(rig.Keep(call, "0", Bytes(10, 1)).data, nullptr);
  ASSERT_TRUE(rig.sink->Drain(5000));
  const ProcessEntry process = rig.Manifest();
  ASSERT_EQ(process.passes.at(1).not_kept.size(), 1u);
  EXPECT_EQ(process.passes[1].not_kept[0].reason, static_cast<uint8_t>(SkipReason::kPassEnded));
}

TEST(CaptureSink, ALateNameIsAnAliasOfTheOperator) {
  SinkRig rig;
  const OperatorId op = rig.Op("a");
  rig.Open(0);
  rig.Keep(rig.NewCall(op), "0", Bytes(10, 1));
  rig.operators.AddAlias(op, "shared.a");
  ASSERT_TRUE(rig.sink->Drain(5000));
  EXPECT_EQ(rig.Records("pass00000.tdp").at(0).aliases, std::vector<std::string>{"shared.a"});
}

// An arena of 64 KiB, of which payloads may take 60; the writer runs at the end only.
TEST(CaptureSink, DropsAtTheCapWhenToldTo) {
  SinkRig rig({.arena_bytes = 64 << 10, .at_limit = AtLimit::kDrop, .thread = false});
  const OperatorId op = rig.Op("a");
  rig.Open(0);
  for (int i = 0; i < 5; ++i)  // of three granules each
    EXPECT_NE(rig.Keep(rig.NewCall(op), "0", Bytes(10'000, static_cast<uint8_t>(i), 3)).data,
              nullptr);
  EXPECT_EQ(rig.Keep(rig.NewCall(op), "0", Bytes(10'000, 9)).data, nullptr);
  ASSERT_TRUE(rig.sink->Drain(5000));
  const auto records = rig.Records("pass00000.tdp");
  ASSERT_EQ(records.size(), 6u);
  EXPECT_EQ(records[4].parts_kept, kLevelFull);
  EXPECT_EQ(records[5].reason, SkipReason::kMemoryLimit);
  EXPECT_EQ(records[5].parts_kept, kPartMeta);
  const ProcessEntry process = rig.Manifest();
  EXPECT_EQ(process.counts.at(0).records, 6u);
  EXPECT_EQ(process.counts.at(0).not_kept, 1u);
}

// Not even metadata finds room: what is lost is counted, by reason and by operator.
TEST(CaptureSink, CountsPerOperatorWhatIsLostAltogether) {
  SinkRig rig({.arena_bytes = 64 << 10, .at_limit = AtLimit::kDrop, .thread = false});
  const OperatorId a = rig.Op("a"), b = rig.Op("b");
  rig.Open(0);
  constexpr uint64_t kEach = 400;
  for (uint64_t i = 0; i < kEach; ++i) {
    for (const OperatorId op : {a, b}) {
      const Call call = rig.NewCall(op);
      rig.Keep(call, "0", {}, kPartMeta);
      rig.sink->end_call(call, {}, {});
    }
  }
  ASSERT_TRUE(rig.sink->Drain(5000));
  const ProcessEntry process = rig.Manifest();
  ASSERT_EQ(process.passes.at(0).not_kept.size(), 1u);
  EXPECT_EQ(process.passes[0].not_kept[0].reason, static_cast<uint8_t>(SkipReason::kMemoryLimit));
  uint64_t lost = 0;
  for (const auto& count : process.counts) {
    EXPECT_EQ(count.records + count.not_kept, kEach) << count.path;
    lost += count.not_kept;
  }
  EXPECT_GT(lost, 100u);
  EXPECT_EQ(process.passes[0].not_kept[0].count, lost);
  // A lost call is one of its operator all the same, and is told.
  uint64_t calls = 0;
  for (const auto& count : process.counts) {
    EXPECT_EQ(count.calls, kEach) << count.path;
    calls += count.calls;
  }
  const uint64_t lost_calls = calls - process.passes[0].calls;
  ASSERT_EQ(process.notes.size(), 1u);
  unsigned long all = 0, first = 0, second = 0;
  char names[2];
  ASSERT_EQ(std::sscanf(process.notes[0].text.c_str(),
                        "pass 0: %lu calls were not written (memory limit): %lu of %c, %lu of %c;",
                        &all, &first, &names[0], &second, &names[1]),
            5)
      << process.notes[0].text;
  EXPECT_EQ(all, lost_calls);
  EXPECT_EQ(first + second, lost_calls);
  EXPECT_GE(first, second);
  EXPECT_EQ(std::set<char>(names, names + 2), (std::set<char>{'a', 'b'}));
}

TEST(CaptureSink, BlocksAtTheCapUntilTheWriterHasGivenRoomBack) {
  for (const bool thread : {true, false}) {
    SinkRig rig({.arena_bytes = 64 << 10, .thread = thread});
    const OperatorId op = rig.Op("a");
    rig.Open(0);
    for (int i = 0; i < 100; ++i)
      rig.Keep(rig.NewCall(op), "0", Bytes(15'000, static_cast<uint8_t>(i), 3));
    ASSERT_TRUE(rig.sink->Drain(20'000));
    const auto records = rig.Records("pass00000.tdp");
    ASSERT_EQ(records.size(), 100u);
    for (const Record& record : records) EXPECT_EQ(record.parts_kept, kLevelFull);
  }
}

TEST(CaptureSink, NeverWaitsForSlotsThatNobodyCommits) {
  for (const bool thread : {true, false}) {
    SinkRig rig({.arena_bytes = 64 << 10, .thread = thread});
    const OperatorId op = rig.Op("a");
    rig.Open(0);
    const Slot first = rig.Keep(rig.NewCall(op), "0", Bytes(15'000, 1), kLevelFull, false);
    const Slot more[] = {rig.Keep(rig.NewCall(op), "1", Bytes(15'000, 2), kLevelFull, false),
                         rig.Keep(rig.NewCall(op), "2", Bytes(15'000, 3), kLevelFull, false)};
    // Would wait for ever.
    const Slot last = rig.Keep(rig.NewCall(op), "3", Bytes(15'000, 4), kLevelFull, false);
    EXPECT_EQ(last.data, nullptr);
    EXPECT_FALSE(last.in_pieces);
    for (const Slot& slot : more) rig.sink->commit(slot);
    rig.sink->commit(first);
    ASSERT_TRUE(rig.sink->Drain(5000));
    std::map<uint64_t, Record> by_id;
    for (const Record& record : rig.Records("pass00000.tdp")) by_id[record.id] = record;
    EXPECT_EQ(by_id[1].parts_kept, kLevelFull);
    EXPECT_EQ(by_id[3].parts_kept, kLevelFull);
    EXPECT_EQ(by_id[4].reason, SkipReason::kMemoryLimit);
  }
}

TEST(CaptureSink, ManyThreadsLoseNothing) {
  SinkRig rig({.arena_bytes = 1 << 20});
  const OperatorId op = rig.Op("a");
  constexpr int kThreads = 6, kEach = 300;
  std::atomic<uint64_t> sequence{0};
  for (uint64_t pass = 0; pass < 2; ++pass) {
    rig.Open(pass);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kEach; ++i) {
          Call call;
          call.op = op;
          call.pass = pass;
          call.lane = static_cast<uint32_t>(t);
          call.index = static_cast<uint64_t>(i);
          call.begin = ++sequence;
          rig.Keep(call, "0", Bytes(1000 + static_cast<size_t>(i), static_cast<uint8_t>(t), 7));
          rig.sink->end_call(call, {}, {});
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  ASSERT_TRUE(rig.sink->Drain(20'000));
  for (const char* file : {"pass00000.tdp", "pass00001.tdp"}) {
    auto reader = rig.Read(file);
    size_t records = 0;
    ASSERT_TRUE(reader
                    ->ForEachRecord([&](const Record& record) {
                      const auto expected =
                          Bytes(1000 + record.key.call, static_cast<uint8_t>(record.key.lane), 7);
                      EXPECT_EQ(record.hash, HashPayload(expected));
                      if (records % 50 == 0) EXPECT_EQ(rig.Payload(*reader, record), expected);
                      return ++records, true;
                    })
                    .ok());
    EXPECT_EQ(records, static_cast<size_t>(kThreads * kEach));
  }
  EXPECT_EQ(rig.Manifest().counts.at(0).calls, 2u * kThreads * kEach);
}

// Holds the writer until `go`; counts pass files between creation and final name.
class LateWriter : public test::ForwardingEnv {
 public:
  LateWriter() : ForwardingEnv(NewMemoryEnv()) {}
  Result<std::unique_ptr<WritableFile>> CreateExclusive(Path path, int mode) override {
    if (path.ends_with(".part")) {
      go.wait(false);
      most_open = std::max(most_open, ++open);
    }
    return base_->CreateExclusive(path, mode);
  }
  Status Rename(Path from, Path to) override {
    --open;
    return base_->Rename(from, to);
  }

  std::atomic<bool> go{false};
  int open = 0;  // the writer thread's, as most_open
  int most_open = 0;
};

TEST(CaptureSink, AWriterThatIsBehindHasOneFileOpen) {
  LateWriter env;
  SinkRig rig({.arena_bytes = 1 << 20}, &env);
  const OperatorId op = rig.Op("a");
  constexpr uint64_t kManyPasses = 200;
  for (uint64_t pass = 0; pass < kManyPasses; ++pass) {
    rig.Open(pass);
    const Call call = rig.NewCall(op);
    rig.Keep(call, "0", Bytes(10, static_cast<uint8_t>(pass)));
    rig.sink->end_call(call, {}, {});
  }
  env.go = true;
  env.go.notify_all();
  ASSERT_TRUE(rig.sink->Drain(20'000));
  EXPECT_EQ(env.most_open, 1);
  EXPECT_EQ(rig.Manifest().passes.size(), kManyPasses);
  EXPECT_EQ(rig.Records("pass00199.tdp").at(0).hash, HashPayload(Bytes(10, 199)));
}

TEST(CaptureSink, NotesAreBounded) {
  SinkRig rig;
  for (int i = 0; i < 1500; ++i) rig.sink->note("note " + std::to_string(i));
  ASSERT_TRUE(rig.sink->Drain(5000));
  const auto notes = rig.Manifest().notes;
  ASSERT_EQ(notes.size(), 1001u);
  EXPECT_NE(notes.back().text.find("left out"), std::string::npos);
}

}  // namespace
}  // namespace tdump::io
