// A disk that is full, slow or broken: the job goes on, what stands in the files is right, and what
// does not is counted and told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <numeric>

#include "tests/io/forwarding_env.h"
#include "tests/io/recorded_passes.h"

namespace tdump::io {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr uint64_t kPasses = 2;
// Bytes of a pass's records; the longest goes to the file without the writer's buffer.
constexpr size_t kSizes[] = {10, 5000, 300 << 10, 64, 20'000};

std::vector<std::byte> Values(uint64_t pass, size_t i) {
  return Bytes(kSizes[i], static_cast<uint8_t>(17 * pass + i), 3);
}

void RunJob(SinkRig* rig) { RecordPasses(rig, kPasses, std::size(kSizes), Values); }

// Of a file; it is whole unless its name says otherwise.
size_t RightRecordsOf(Env* env, const std::string& path, uint64_t pass) {
  const auto reader = PassReader::Open(env, path);
  if (!reader.ok()) return 0;
  SCOPED_TRACE(path);
  const size_t right = RightRecords(reader->get(), pass, Values);
  if (!path.ends_with(".part")) ExpectWhole(reader->get());
  return right;
}

// What the manifest says and what the files hold agree, and together
// they are all that was asked for.
void CheckRun(SinkRig* rig) {
  ProcessEntry process;
  ReadManifest(rig->memory.get(), JoinPath(rig->directory, "manifest.tdm"), &process);
  EXPECT_THAT(process.damage, IsEmpty());
  for (const PassEntry& pass : process.passes) {
    size_t right = 0;
    if (!pass.file.empty())
      right =
          RightRecordsOf(rig->memory.get(), JoinPath(rig->directory, pass.file), pass.info.ordinal);
    uint64_t lost = 0;
    for (const ReasonCount& count : pass.not_kept) lost += count.count;
    EXPECT_EQ(right + lost, std::size(kSizes)) << pass.file << ": " << pass.error;
    EXPECT_EQ(lost != 0, !pass.error.empty() && right < std::size(kSizes)) << pass.error;
    EXPECT_EQ(pass.part, !pass.error.empty() && !pass.file.empty());
  }
  if (process.passes.size() < kPasses) EXPECT_THAT(rig->told, Not(IsEmpty()));
}

// One operating-system call after the other fails, once.
TEST(Disk, AnyCallMayFailOnce) {
  for (const int error : {ENOSPC, EDQUOT, EIO}) {
    bool hit = true;
    uint64_t victim = 1;
    for (; hit; ++victim) {
      hit = false;
      auto memory = NewMemoryEnv();
      // Not before the manifest is made: that is the launcher's to tell.
      uint64_t calls = 0;
      bool armed = false;
      auto faulty = NewFaultyEnv(memory.get(), [&](uint64_t, std::string_view, std::string_view) {
        if (!armed || ++calls != victim) return 0;
        hit = true;
        return error;
      });
      SCOPED_TRACE(testing::Message() << "call " << victim << " fails with errno " << error);
      SinkRig rig({.arena_bytes = 1 << 20, .thread = false}, faulty.get());
      rig.memory.swap(memory);
      armed = true;
      RunJob(&rig);
      CheckRun(&rig);
      rig.sink.reset();
      rig.manifest.reset();
      rig.memory.swap(memory);
      if (HasFailure()) return;
    }
    // Opens, writes, closes and renames of two passes, and the manifest's writes.
    EXPECT_GT(victim, 15u);
  }
}

// Full from some write on, for good. The manifest has its room already.
TEST(Disk, FullForGoodIsToldOnceAndCounted) {
  for (uint64_t room = 0; room < 12; ++room) {
    auto memory = NewMemoryEnv();
    uint64_t writes = 0;
    auto faulty =
        NewFaultyEnv(memory.get(), [&](uint64_t, std::string_view call, std::string_view path) {
          if (call != "write" || path.find(".tdp") == std::string_view::npos) return 0;
          return writes++ < room ? 0 : ENOSPC;
        });
    SCOPED_TRACE(testing::Message() << "room for " << room << " writes");
    SinkRig rig({.arena_bytes = 1 << 20, .thread = false}, faulty.get());
    rig.memory.swap(memory);
    RunJob(&rig);
    CheckRun(&rig);
    const ProcessEntry process = rig.Manifest();
    EXPECT_EQ(process.passes.size(), kPasses);
    if (writes > room) {
      ASSERT_EQ(rig.told.size(), 1u);
      EXPECT_THAT(rig.told[0], AllOf(HasSubstr("pass0000"), HasSubstr("ENOSPC"),
                                     HasSubstr(" bytes"), HasSubstr("the job goes on")));
      EXPECT_THAT(process.passes.back().error, HasSubstr("ENOSPC"));
      EXPECT_EQ(process.notes.size(), 1u);
    }
    rig.sink.reset();
    rig.manifest.reset();
    rig.memory.swap(memory);
  }
}

// A budget stops the writing before the disk is full.
TEST(Disk, TheLimitStopsWritingAndIsCounted) {
  constexpr uint64_t kLimit = 200 << 10;
  SinkRig rig({.arena_bytes = 1 << 20, .thread = false, .disk_limit_bytes = kLimit});
  const OperatorId op = rig.Op("a"), for_signature = rig.Op("b");
  rig.sink->expect(op);
  for (uint64_t pass = 0; pass < 3; ++pass) {
    rig.Open(pass);
    rig.Keep(rig.NewCall(for_signature), "0", {}, kPartMeta);
    for (uint8_t i = 0; i < 30; ++i) {
      // After the limit, reserve() hands out nothing any more.
      rig.Keep(rig.NewCall(op), "0", Bytes(20'000, static_cast<uint8_t>(40 * pass + i), 3));
    }
    rig.sink->close_pass();
  }
  ASSERT_TRUE(rig.sink->Drain(10'000));
  EXPECT_TRUE(rig.sink->stopped());
  ASSERT_EQ(rig.told.size(), 1u);
  EXPECT_THAT(rig.told[0], AllOf(HasSubstr("the limit of 204800 bytes is reached"),
                                 HasSubstr("pass 0 is the last one with tensors")));
  const ProcessEntry process = rig.Manifest();
  uint64_t bytes = 0;
  for (const PassEntry& pass : process.passes) {
    bytes += pass.file_bytes;
    EXPECT_FALSE(pass.part);
    EXPECT_EQ(pass.error, "");
  }
  EXPECT_LE(bytes, kLimit);
  // 187.5 KiB go to values (15 / 16 of the limit), the rest to saying what was left out.
  const auto records = rig.Records("pass00000.tdp");
  size_t kept = 0, meta = 0;
  for (const Record& record : records) {
    if (record.key.path == "b") continue;
    (record.payload ? kept : meta)++;
    EXPECT_EQ(record.reason, record.payload ? SkipReason::kNone : SkipReason::kDiskLimit);
  }
  EXPECT_EQ(kept, 9u);
  EXPECT_GT(meta, 0u);
  ASSERT_EQ(process.passes[0].not_kept.size(), 1u);
  EXPECT_EQ(process.passes[0].not_kept[0].count, 30u - kept);
  // Of the later steps the manifest says that they are not there, and what is missing in them.
  ASSERT_EQ(process.notes.size(), 2u);
  EXPECT_EQ(process.notes[1].level, 1);
  EXPECT_EQ(process.notes[1].text,
            "the limit of 204800 bytes is reached: steps from 1 on are not written. At least 1 "
            "operator is missing in each of them: as many were recorded before");
}

// Writes to pass files fail while `full`.
std::unique_ptr<Env> NoRoomForPasses(Env* base, const bool* full) {
  return NewFaultyEnv(base, [full](uint64_t, std::string_view call, std::string_view path) {
    const bool hit = *full && call == "write" && path.find(".tdp") != std::string_view::npos;
    return hit ? ENOSPC : 0;
  });
}

// Full from the third pass on: three of them fail, and of those that are not tried the manifest
// says from where on they are missing.
TEST(Disk, PassesThatAreNotTriedAfterItFailedAreTold) {
  auto memory = NewMemoryEnv();
  bool full = false;
  const auto env = NoRoomForPasses(memory.get(), &full);
  SinkRig rig({.arena_bytes = 1 << 20, .thread = false}, env.get());
  const OperatorId op = rig.Op("a");
  rig.sink->expect(op);
  for (uint64_t pass = 0; pass < 8; ++pass) {
    full = pass >= 2;
    rig.Open(pass);
    rig.Keep(rig.NewCall(op), "0", Bytes(20'000, static_cast<uint8_t>(pass), 3));
    rig.sink->close_pass();
  }
  ASSERT_TRUE(rig.sink->Drain(10'000));
  EXPECT_TRUE(rig.sink->stopped());
  const ProcessEntry process = rig.Manifest();
  ASSERT_EQ(process.passes.size(), 5u);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(process.passes[i].error.empty(), i < 2);
  ASSERT_EQ(process.notes.size(), 3u);
  EXPECT_EQ(process.notes[1].text, "3 passes in a row could not be written; no more are tried");
  EXPECT_EQ(process.notes[2].text,
            "3 passes in a row could not be written: steps from 5 on are not written. At least 1 "
            "operator is missing in each of them: as many were recorded before");
  EXPECT_EQ(rig.told.size(), 2u);
}

// The writer gives up while the fourth pass is open, and there is room again: what this one gets is
// written all the same, for nothing would tell that it was refused.
TEST(Disk, ThePassThatIsOpenWhenTheWriterGivesUpIsWritten) {
  auto memory = NewMemoryEnv();
  bool full = true;
  const auto env = NoRoomForPasses(memory.get(), &full);
  SinkRig rig({.arena_bytes = 1 << 20, .thread = false}, env.get());
  const OperatorId op = rig.Op("a");
  const auto keep = [&](uint8_t value, bool commit) {
    return rig.Keep(rig.NewCall(op), "0", Bytes(20'000, value, 3), kLevelFull, commit);
  };
  for (uint64_t pass = 0; pass < 2; ++pass) {
    rig.Open(pass);
    keep(1, true);
  }
  rig.Open(2);
  const Slot late = keep(2, false);
  rig.Open(3);
  rig.sink->commit(late);
  rig.sink->note("the writer takes a turn");
  EXPECT_EQ(rig.told.size(), 2u);
  full = false;
  keep(3, true);
  keep(4, true);
  rig.sink->close_pass();
  rig.Open(4);
  EXPECT_TRUE(rig.sink->stopped());
  ASSERT_TRUE(rig.sink->Drain(10'000));
  const ProcessEntry process = rig.Manifest();
  ASSERT_EQ(process.passes.size(), 4u);
  EXPECT_EQ(process.passes[3].error, "");
  EXPECT_EQ(process.passes[3].records, 2u);
  EXPECT_THAT(process.notes.back().text, HasSubstr(": steps from 4 on are not written. "));
}

TEST(Disk, LeavesTheJobTheSpaceItWasPromised) {
  // The file system in memory says that 1 TiB is free.
  SinkRig rig({.thread = false, .min_free_bytes = 2ull << 40});
  rig.Open(0);
  for (int i = 0; i < 30; ++i)
    rig.Keep(rig.NewCall(rig.Op("a")), "0", Bytes(1 << 20, static_cast<uint8_t>(i)));
  ASSERT_TRUE(rig.sink->Drain(10'000));
  rig.Open(1);
  EXPECT_TRUE(rig.sink->stopped());
  ASSERT_EQ(rig.told.size(), 1u);
  EXPECT_THAT(rig.told[0], HasSubstr("1099511627776 bytes are free on the disk"));
  EXPECT_LT(rig.Manifest().passes.at(0).file_bytes, 20u << 20);
}

// Takes every byte of a pass file and keeps the first `limit`.
class LosingFile final : public WritableFile {
 public:
  LosingFile(std::unique_ptr<WritableFile> base, uint64_t limit)
      : base_(std::move(base)), limit_(limit) {}
  Status Append(std::span<const std::byte> bytes) override { return WriteAt(size_, bytes); }
  Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) override {
    if (offset != size_) return Internal("not used");
    const uint64_t kept = std::min<uint64_t>(bytes.size(), limit_ - std::min(limit_, size_));
    size_ += bytes.size();
    return base_->Append(bytes.first(kept));
  }
  Status Preallocate(uint64_t, uint64_t, bool) override { return Status(); }
  Status Truncate(uint64_t) override { return Internal("not used"); }
  Status Sync() override { return base_->Sync(); }
  Status Close() override { return base_->Close(); }
  uint64_t Size() const override { return size_; }

 private:
  const std::unique_ptr<WritableFile> base_;
  const uint64_t limit_;
  uint64_t size_ = 0;
};

class LosingEnv final : public test::ForwardingEnv {
 public:
  explicit LosingEnv(uint64_t limit) : ForwardingEnv(NewMemoryEnv()), limit_(limit) {}
  Result<std::unique_ptr<WritableFile>> CreateExclusive(Path path, int mode) override {
    TDUMP_ASSIGN_OR_RETURN(auto file, base_->CreateExclusive(path, mode));
    if (!path.ends_with(".part")) return file;
    return std::unique_ptr<WritableFile>(std::make_unique<LosingFile>(std::move(file), limit_));
  }

 private:
  const uint64_t limit_;
};

// Direct writes are refused once: the pass is whole, the manifest has a note, the user is not told.
TEST(Disk, AFileSystemWithoutDirectWritesGetsAllThroughTheCache) {
  auto memory = NewMemoryEnv();
  int refused = 0;
  auto env = NewFaultyEnv(memory.get(), [&](uint64_t, std::string_view call, std::string_view) {
    return call == "write_direct" ? (++refused, EINVAL) : 0;
  });
  SinkRig rig({.arena_bytes = 16 << 20, .thread = false}, env.get());
  rig.Open(0);
  for (uint8_t i = 0; i < 3; ++i)
    rig.Keep(rig.NewCall(rig.Op("a")), std::to_string(i), Bytes(1'500'001, i, 3));
  rig.sink->close_pass();
  ASSERT_TRUE(rig.sink->Drain(1000));
  EXPECT_EQ(refused, 1);
  const auto reader = rig.Read("pass00000.tdp");
  const std::vector<Record> records = rig.Records("pass00000.tdp");
  EXPECT_EQ(records.size(), 3u);
  for (const Record& record : records)
    EXPECT_EQ(rig.Payload(*reader, record),
              Bytes(1'500'001, static_cast<uint8_t>(std::stoi(record.key.arg)), 3));
  const ProcessEntry process = rig.Manifest();
  ASSERT_EQ(process.notes.size(), 1u);
  EXPECT_EQ(process.notes[0].level, 0);
  EXPECT_THAT(process.notes[0].text, HasSubstr("O_DIRECT"));
  EXPECT_TRUE(rig.told.empty());
  rig.sink.reset();
  rig.manifest.reset();
}

// A file whose end is not there is never listed as good.
TEST(Disk, BytesThatWereLostInSilenceAreFoundBeforeTheFinalName) {
  LosingEnv env(5200);
  SinkRig rig({.thread = false}, &env);
  rig.Open(0);
  for (uint8_t i = 0; i < 4; ++i)
    rig.Keep(rig.NewCall(rig.Op("a")), "0", Bytes(1000, static_cast<uint8_t>(40 * i)));
  rig.sink->close_pass();
  ASSERT_TRUE(rig.sink->Drain(1000));
  const ProcessEntry process = rig.Manifest();
  EXPECT_TRUE(process.passes.at(0).part);
  EXPECT_THAT(process.passes[0].error, HasSubstr("pass00000.tdp.part: offset 5200: read back: "));
  ASSERT_EQ(rig.told.size(), 1u);
  EXPECT_FALSE(env.Stat(rig.directory + "/pass00000.tdp").ok());
  EXPECT_GT(rig.Records("pass00000.tdp.part").size(), 0u);
  rig.sink.reset();
  rig.manifest.reset();
}

// The kernel takes part of each write, and is interrupted now and then.
TEST(Disk, ShortAndInterruptedWritesLoseNothing) {
  auto memory = NewMemoryEnv();
  auto faulty = NewFaultyEnv(memory.get(), [](uint64_t n, std::string_view call, std::string_view) {
    if (call != "write") return 0;
    return n % 3 == 0 ? EINTR : kShortWrite;
  });
  SinkRig rig({}, faulty.get());
  std::vector<int32_t> ramp(2 << 20);
  std::iota(ramp.begin(), ramp.end(), 0);
  std::vector<std::byte> bytes(ramp.size() * sizeof(int32_t));
  std::memcpy(bytes.data(), ramp.data(), bytes.size());
  rig.Open(0);
  rig.Keep(rig.NewCall(rig.Op("a")), "0", bytes);
  ASSERT_TRUE(rig.sink->Drain(20'000));
  const auto reader = rig.Read("pass00000.tdp");
  EXPECT_TRUE(reader->complete());
  EXPECT_EQ(rig.Payload(*reader, rig.Records("pass00000.tdp").at(0)), bytes);
  EXPECT_THAT(rig.told, IsEmpty());
  rig.sink.reset();
  rig.manifest.reset();
}

}  // namespace
}  // namespace tdump::io
