// SlotFile: clock/rankN_pidM.slot, what a process tells about itself while it runs. One writer, any
// number of readers, on one node or over a shared file system; nothing is locked.
//
//   bytes 0..191     SlotHeader: who the process is; written once
//   bytes 192..255   SlotPulse: how far it is; rewritten in place
//   bytes 256..      kSlotCount slots of 64 bytes, a ring of AgreementMessages: message n (from 1)
//                    stands in slot (n - 1) % kSlotCount
// Each part carries an XXH3-64 of the bytes before it, so that a reader tells a torn or old part
// from a whole one. Order of writing: slots first, then the pulse that counts them. The file's
// blocks are allocated when it is made: a full disk does not stop the agreement.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/agreement_message.h"
#include "core/env.h"
#include "core/identity.h"

namespace tdump::coordinator {

inline constexpr uint32_t kSlotCount = 1024;

struct SlotHeader {
  char magic[8] = {'T', 'D', 'M', 'S', 'L', 'O', 'T', '1'};
  uint32_t slots = kSlotCount;
  int32_t rank = 0;
  int32_t world = 1;
  uint32_t generation = 0;
  int64_t pid = 0;
  uint64_t start_time = 0;  // clock ticks since boot
  uint64_t job_hash = 0;    // Hash64(job key)
  int64_t started_ns = 0;   // wall clock
  char host[64] = {};       // cut, ends with a zero byte
  uint8_t reserved[64] = {};
  uint64_t checksum = 0;
};

enum class SlotState : uint32_t { kRunning = 1, kExiting = 2, kClosed = 3 };

struct SlotPulse {
  uint64_t messages = 0;  // written so far
  uint64_t steps = 0;     // counted steps that have ended; the next one has begun
  uint64_t settled = 0;   // global steps below are settled, as far as this process knows
  int64_t time_ns = 0;    // wall clock
  SlotState state = SlotState::kRunning;
  uint8_t lockstep = 0;  // AgreementOptions::lockstep
  uint8_t reserved[19] = {};
  uint64_t checksum = 0;
};

struct SlotEntry {
  uint64_t number = 0;  // of the message, from 1
  AgreementMessage message;
  uint64_t reserved = 0;
  uint64_t checksum = 0;
};

// Of the process in `directory` of a run.
std::string SlotPath(const std::string& run, const std::string& directory);

static_assert(sizeof(SlotHeader) == 192 && sizeof(SlotPulse) == 64 && sizeof(SlotEntry) == 64);

SlotHeader MakeSlotHeader(const Identity& identity, uint32_t generation, int64_t now_ns);

// Not thread-safe. After an error the process goes on and is silent to the others.
class SlotWriter {
 public:
  // `file`: empty, open for writing, from PrepareRunDirectory.
  SlotWriter(Env* env, std::unique_ptr<WritableFile> file, const SlotHeader& header);
  // Kept in memory until Flush().
  void Add(const AgreementMessage& message);
  // Writes what was added and the pulse.
  Status Flush(uint64_t steps, uint64_t settled);
  void SetLockstep() { pulse_.lockstep = 1; }
  Status SetState(SlotState state);
  const SlotHeader& header() const { return header_; }

 private:
  Status WriteEntries();
  Status WritePulse();

  Env* env_;
  std::unique_ptr<WritableFile> file_;
  SlotHeader header_;
  SlotPulse pulse_;
  std::vector<SlotEntry> waiting_;  // at most kSlotCount, for which it has room from the start
};

// Not thread-safe.
class SlotReader {
 public:
  // Error: unreadable, torn (it is just being made) or not a slot file.
  static Result<SlotReader> Open(Env* env, const std::string& path);

  const SlotHeader& header() const { return header_; }
  // As of the latest Refresh().
  const SlotPulse& pulse() const { return pulse_; }
  // Reads the pulse anew; keeps the old one when it is torn just now.
  Status Refresh();
  // Messages that came since the last call, oldest first; those that the ring has lost are skipped.
  Status Read(std::vector<AgreementMessage>* messages);
  // Closes the file until it is needed again.
  void Rest() {
    if (file_ != nullptr) file_->Rest();
  }

 private:
  SlotReader(Env* env, std::string path) : env_(env), path_(std::move(path)) {}
  Status EnsureOpen();

  Env* env_;
  std::string path_;
  std::unique_ptr<ReadableFile> file_;
  SlotHeader header_;
  SlotPulse pulse_;
  uint64_t read_ = 0;               // messages taken or lost
  std::vector<SlotEntry> entries_;  // of Read(), its memory kept
};

}  // namespace tdump::coordinator
