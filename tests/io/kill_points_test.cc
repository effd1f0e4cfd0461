// A writer that is killed between any two of its system calls, or in the middle of a write: what
// the manifest acknowledges is readable, what could be read before still can.
//
// SIGKILL may end a write early. Linux looks for it before each page that it copies, so a write
// stops at the end of a page of the file; elsewhere only when a page of the source has to be
// fetched. A run is recorded call by call, then done again one call after the other, writes piece
// by piece, and checked after every piece.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <ostream>

#include "io/format.h"
#include "tests/io/forwarding_env.h"
#include "tests/io/kill_check.h"

namespace tdump::io::test {
namespace {

constexpr uint64_t kPage = 4096;

// One call that changes what is on the disk. Files are known by number: they outlive their names.
struct DiskCall {
  enum Kind { kCreate, kWrite, kTruncate, kRename, kRemove } kind;
  size_t file = 0;
  uint64_t at = 0;  // of a write: its offset; of a truncation: the length
  std::vector<std::byte> bytes = {};
  std::string path = {}, to = {};
};

struct Journal {
  std::mutex mutex;  // held for the call itself too: the order is the disk's
  std::vector<DiskCall> calls;
  size_t files = 0;
};

// A file system in memory that keeps a journal. `zeros`: it cannot preallocate, so zeros are
// written where that is asked for.
class JournalEnv final : public ForwardingEnv {
 public:
  JournalEnv(Journal* journal, bool zeros)
      : ForwardingEnv(NewMemoryEnv()), journal_(journal), zeros_(zeros) {}

  Result<std::unique_ptr<WritableFile>> CreateExclusive(Path path, int mode) override {
    std::lock_guard lock(journal_->mutex);
    TDUMP_ASSIGN_OR_RETURN(auto file, base_->CreateExclusive(path, mode));
    const size_t number = journal_->files++;
    journal_->calls.push_back({.kind = DiskCall::kCreate, .file = number, .path = path});
    return std::unique_ptr<WritableFile>(new File(journal_, number, zeros_, std::move(file)));
  }
  Status Rename(Path from, Path to) override {
    std::lock_guard lock(journal_->mutex);
    journal_->calls.push_back({.kind = DiskCall::kRename, .path = from, .to = to});
    return base_->Rename(from, to);
  }
  Status Remove(Path path) override {
    std::lock_guard lock(journal_->mutex);
    journal_->calls.push_back({.kind = DiskCall::kRemove, .path = path});
    return base_->Remove(path);
  }

 private:
  class File final : public WritableFile {
   public:
    File(Journal* journal, size_t number, bool zeros, std::unique_ptr<WritableFile> base)
        : journal_(journal), number_(number), zeros_(zeros), base_(std::move(base)) {}
    Status Append(std::span<const std::byte> bytes) override { return WriteAt(size_, bytes); }
    Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) override {
      size_ = std::max(size_, offset + bytes.size());
      return Put(offset, bytes);
    }
    Status Preallocate(uint64_t offset, uint64_t bytes, bool or_zeros) override {
      if (!zeros_) return Status();
      if (!or_zeros) return Unsupported("no preallocation here");
      const uint64_t length = base_->Size();
      if (offset + bytes <= length) return Status();
      return Put(length, std::vector<std::byte>(offset + bytes - length));
    }
    Status Truncate(uint64_t bytes) override {
      std::lock_guard lock(journal_->mutex);
      journal_->calls.push_back({.kind = DiskCall::kTruncate, .file = number_, .at = bytes});
      return base_->Truncate(size_ = bytes);
    }
    Status Sync() override { return Status(); }
    Status Close() override { return base_->Size() == size_ ? Status() : Truncate(size_); }
    uint64_t Size() const override { return size_; }

   private:
    Status Put(uint64_t offset, std::span<const std::byte> bytes) {
      std::lock_guard lock(journal_->mutex);
      journal_->calls.push_back({.kind = DiskCall::kWrite,
                                 .file = number_,
                                 .at = offset,
                                 .bytes = {bytes.begin(), bytes.end()}});
      return base_->WriteAt(offset, bytes);
    }
    Journal* const journal_;
    const size_t number_;
    const bool zeros_;
    const std::unique_ptr<WritableFile> base_;
    uint64_t size_ = 0;
  };
  Journal* const journal_;
  const bool zeros_;
};

// The calls of a journal once more, and what the writer could believe at each moment.
class Replay {
 public:
  using Check = std::function<void(const Acknowledged&)>;
  Replay(Env* env, Check check) : env_(env), check_(std::move(check)) {}

  // `step`: a write of new bytes may end at its multiples.
  void Do(const DiskCall& call, uint64_t step) {
    switch (call.kind) {
      case DiskCall::kCreate:
        files_[call.file] = env_->CreateExclusive(call.path, 0600).value();
        if (call.path.ends_with("manifest.tdm")) manifest_ = call.file;
        break;
      case DiskCall::kWrite:
        Write(call, step);
        break;
      case DiskCall::kTruncate:
        ASSERT_TRUE(files_.at(call.file)->Truncate(call.at).ok());
        break;
      case DiskCall::kRename:
        ASSERT_TRUE(env_->Rename(call.path, call.to).ok());
        break;
      case DiskCall::kRemove:
        ASSERT_TRUE(env_->Remove(call.path).ok());
        break;
    }
    check_(acknowledged_);
  }

 private:
  void Write(const DiskCall& call, uint64_t step) {
    WritableFile* file = files_.at(call.file).get();
    // In the middle of the file only a page's end is a place to stop.
    if (call.at < file->Size()) step = kPage;
    const uint64_t end = call.at + call.bytes.size();
    for (uint64_t at = call.at; at < end;) {
      const uint64_t stop = std::min(end, (at / step + 1) * step);
      const auto piece = std::span(call.bytes).subspan(at - call.at, stop - at);
      ASSERT_TRUE(file->WriteAt(at, piece).ok());
      if (stop < end) check_(acknowledged_);
      at = stop;
    }
    Acknowledge(call);
  }

  // The write came back.
  void Acknowledge(const DiskCall& call) {
    if (call.file != manifest_ || call.at != acknowledged_.manifest_bytes) return;
    uint64_t magic;
    std::memcpy(&magic, call.bytes.data(), sizeof magic);
    if (magic == 0) return;  // room for later entries
    acknowledged_.manifest_bytes += call.bytes.size();
    FrameHeader frame;
    std::memcpy(&frame, call.bytes.data(), sizeof frame);
    if (frame.kind == static_cast<uint16_t>(FrameKind::kPassDone) && frame.magic == kFrameMagic)
      ++acknowledged_.passes;
  }

  Env* const env_;
  const Check check_;
  std::map<size_t, std::unique_ptr<WritableFile>> files_;
  size_t manifest_ = 0;
  Acknowledged acknowledged_;
};

struct Scenario {
  const char* name;
  bool packed;
  uint64_t step;  // writes of new bytes are cut at its multiples
  uint64_t passes;
  uint64_t records;    // of a pass
  bool large = false;  // some payloads are written past the writer's buffer
  bool zeros = false;  // the file system cannot preallocate
  uint64_t ring = 0;   // bytes that it may hold
};

void PrintTo(const Scenario& run, std::ostream* out) { *out << run.name; }

// Writes passes and closes everything. Every third pass ends after the next one began, so that a
// second packed file is there; a drain gives packed files their final names.
void WriteRun(const Scenario& run, Journal* journal) {
  JournalEnv env(journal, run.zeros);
  SinkRig rig({.arena_bytes = 1 << 20,
               .thread = false,
               .disk_limit_bytes = run.ring,
               .files = {.single_files = run.packed ? 0 : ~uint64_t{0},
                         .ring = run.ring != 0,
                         .ring_bytes = run.ring}},
              &env);
  Slot late;
  for (uint64_t pass = 0; pass < run.passes; ++pass) {
    rig.Open(pass);
    Slot last;
    for (uint64_t i = 1; i <= run.records; ++i) {
      const bool waits = i == run.records && pass % 3 == 1;
      last = KeepKilledValues(&rig, i, run.large, !waits);
    }
    if (late.data != nullptr) rig.sink->commit(late);
    late = pass % 3 == 1 ? last : Slot();
    rig.sink->close_pass();
    if (pass % 6 == 3) {
      EXPECT_TRUE(rig.sink->Drain(10'000));
    }
  }
  if (late.data != nullptr) rig.sink->commit(late);
  EXPECT_TRUE(rig.sink->Drain(10'000));
}

class KillPoints : public ::testing::TestWithParam<Scenario> {};

TEST_P(KillPoints, AcknowledgedPassesStandAndNothingIsLost) {
  const Scenario& run = GetParam();
  Journal journal;
  WriteRun(run, &journal);
  const auto env = NewMemoryEnv();
  ASSERT_TRUE(env->MakeDirs("run/rank0", 0700).ok());
  std::set<std::pair<uint64_t, uint64_t>> before;
  size_t points = 0, passes = 0;
  Replay replay(env.get(), [&](const Acknowledged& acknowledged) {
    ++points;
    const Left left = CheckWhatIsLeft(env.get(), "run", acknowledged, run.large);
    if (run.ring == 0) {
      EXPECT_TRUE(std::ranges::includes(left.records, before)) << "records are gone";
    }
    EXPECT_GE(left.passes, passes);
    before = left.records;
    passes = left.passes;
  });
  for (size_t i = 0; i < journal.calls.size(); ++i) {
    replay.Do(journal.calls[i], run.step);
    ASSERT_FALSE(HasFailure()) << "killed in or after call " << i;
  }
  EXPECT_EQ(passes, run.passes);
  const size_t written = run.passes * run.records;
  if (run.ring == 0) {
    EXPECT_EQ(before.size(), written);
  } else {
    EXPECT_LT(before.size(), written);
  }
  EXPECT_GT(points, 50u);
}

INSTANTIATE_TEST_SUITE_P(
    Runs, KillPoints,
    ::testing::Values(Scenario{"FilesAtEveryByte", false, 1, 2, 2},
                      Scenario{"PackedAtEveryByte", true, 1, 2, 2},
                      Scenario{"FilesAtEveryPage", false, kPage, 6, 9, true},
                      Scenario{"PackedAtEveryPage", true, kPage, 6, 9, true},
                      Scenario{"FilesInZeros", false, kPage, 4, 3, false, true},
                      Scenario{"PackedInZeros", true, kPage, 4, 3, false, true},
                      Scenario{"RingOfFiles", false, kPage, 16, 4, false, false, 64 << 10},
                      Scenario{"RingOfPacks", true, 64 * kPage, 28, 4, true, false, 4 << 20}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tdump::io::test
