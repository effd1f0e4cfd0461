// CaptureEntry: one record, call or piece of a payload on its way from a collector to the file. One
// contiguous room in the arena: this header, the arrays and texts it was seen with, the payload.
// The producer fills it and never looks at it again after it was committed; the writer reads it
// where it lies (io/capture_item.h) and gives the room back.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/sink.h"
#include "core/statistics.h"
#include "io/records.h"

namespace tdump::io {

struct PassSlot;

inline constexpr size_t kMaxReasonDetail = 200;  // bytes; what is longer is cut

struct CaptureEntry {
  enum class Kind : uint8_t { kRecord, kCall, kPiece };
  enum class Stream : uint8_t { kNone, kPieces };

  // Read and written by the writer once pushed.
  CaptureEntry* next = nullptr;
  bool orphaned = false;      // its pass ended without it; waits for its commit to be given back
  uint64_t pieces_taken = 0;  // of a stream

  // Set by the producer before it is pushed.
  Kind kind = Kind::kRecord;
  Stream stream = Stream::kNone;
  PassSlot* pass = nullptr;
  uint64_t room = 0;  // bytes taken from the arena, as given to Take()
  Call call;

  // A record. The spans lie behind the header in the same room, but for keep.slice.
  uint64_t record = 0;
  uint64_t earlier = 0;  // refer(): record that has the payload
  uint64_t seen = 0;
  Keep keep;
  Observation observation;
  std::string_view detail;                 // of `reason`
  const Statistics* statistics = nullptr;  // made by the producer
  const Hash128* hash = nullptr;           // made by the producer: the payload was given up
  DeviceCopy* copy = nullptr;              // when_ready()
  // A call: bytes of an ArgumentList and of a CallText.
  std::span<const std::byte> arguments;
  std::span<const std::byte> text;
  // A piece: the stream's record, and where in its payload it belongs.
  CaptureEntry* head = nullptr;
  uint64_t offset = 0;

  std::byte* payload = nullptr;
  uint64_t bytes = 0;  // of `payload`; of a stream's record: of all pieces together

  // Set by the producer before the commit, read by the writer after it.
  SkipReason reason = SkipReason::kNone;
  uint64_t pieces = 0;  // of a stream: how many were pushed

  bool committed() const { return is_committed.load(std::memory_order_acquire); }
  std::atomic<bool> is_committed{false};
};

// What a record's entry is made of.
struct RecordEntry {
  const Call& call;
  const Observation& observation;
  const Keep& keep;
  uint64_t payload = 0;  // bytes of room for values behind the header
  SkipReason reason = SkipReason::kNone;
  std::string_view detail;
  const Statistics* statistics = nullptr;
  const Hash128* hash = nullptr;
};

// Bytes of the whole entry, and the entry made in a room of so many bytes.
uint64_t EntryBytes(const RecordEntry& from);
CaptureEntry* MakeEntry(const RecordEntry& from, uint64_t bytes, std::byte* room);
uint64_t CallEntryBytes(std::span<const std::byte> arguments, std::span<const std::byte> text);
CaptureEntry* MakeCallEntry(const Call& call, std::span<const std::byte> arguments,
                            std::span<const std::byte> text, uint64_t bytes, std::byte* room);
uint64_t PieceEntryBytes(uint64_t payload);
CaptureEntry* MakePieceEntry(CaptureEntry* head, uint64_t offset, uint64_t payload, uint64_t bytes,
                             std::byte* room);

}  // namespace tdump::io
