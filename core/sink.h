// Sink: where collectors put what they saw. One per process; implemented by io (io/capture_sink.h).
//
// Protocol of one observation, all on the thread that runs the operator:
//   1. The collector has opened a call (core/recorder.h) and asked the Plan for the parts to keep.
//   2. reserve() hands out room for the canonical payload, or says that there is none (data ==
//      nullptr): the sink then has already written down why, and the collector does nothing more;
//      or, with in_pieces, the collector calls stream().
//   3. The collector copies the tensor (row-major, conj and neg resolved, stride-0 dimensions once)
//      and calls commit(). Everything else (hashing, writing) happens on the sink's own thread.
//   4. end_call() after the last observation; the sink writes the call record.
// Every function is noexcept and thread-safe. Nothing here may fail the job.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/plan.h"
#include "core/types.h"

namespace tdump {

struct Statistics;  // core/statistics.h

// Opaque to collectors but for `data`.
struct Slot {
  // Room for `bytes` bytes, aligned to 64; nullptr: nothing to copy, do not commit.
  std::byte* data = nullptr;
  uint64_t bytes = 0;
  uint64_t record = 0;  // id of the record within its pass, for refer()
  void* impl = nullptr;
  bool in_pieces = false;  // with data == nullptr: nothing is noted yet, call stream() instead
};

// Copies pieces of a canonical payload, on the thread that runs the operator.
class PieceSource {
 public:
  virtual ~PieceSource() = default;
  // Bytes [offset, offset + out.size()) of the payload. False: it cannot be read. noexcept.
  virtual bool CopyTo(uint64_t offset, std::span<std::byte> out) noexcept = 0;
};

// A copy under way on a device. Handed to the sink, which calls it on its own thread only and
// releases it once, ready or not.
class DeviceCopy {
 public:
  enum class State : uint8_t { kPending, kReady, kFailed };
  virtual ~DeviceCopy() = default;
  virtual State Poll() noexcept = 0;  // never blocks
  // When ready: the canonical payload in host memory, empty where only `statistics` and `digests`
  // were made on the device; also where more was asked for and the device's staging was full.
  virtual std::span<const std::byte> payload() const noexcept = 0;
  virtual const Statistics* statistics() const noexcept { return nullptr; }
  virtual std::span<const uint8_t> digests() const noexcept { return {}; }  // of the hash's tiles
  // When failed: what the device said.
  virtual std::string_view error() const noexcept { return {}; }
  virtual void Release() noexcept = 0;  // gives its room back; the object is not used afterwards
};

class Sink {
 public:
  virtual ~Sink() = default;

  // `keep` is what the plan asked for; `bytes` the size of what `observation.content` says, 0 when
  // only meta is kept. With other parts and bytes == 0 (an empty tensor) the
  // returned data is nullptr and the record is complete without commit().
  virtual Slot reserve(const Call& call, const Observation& observation, const Keep& keep,
                       uint64_t bytes) noexcept = 0;
  virtual void commit(const Slot& slot) noexcept = 0;
  // Gives a slot back unfilled (the copy threw): the record is kept as meta with the reason.
  virtual void abandon(const Slot& slot, SkipReason reason) noexcept = 0;
  // Largest payload that reserve() takes in one piece.
  virtual uint64_t max_slot() const noexcept = 0;
  // A payload of any size, taken from `source` in pieces as room comes; returns when all of it was
  // copied (or the record given up, and noted). For what is larger than max_slot(), and where
  // reserve() says in_pieces: the arena is full and statistics are to stand for the payload. A
  // piece starts at a multiple of 16 KiB and may be asked for again.
  virtual void stream(const Call& call, const Observation& observation, const Keep& keep,
                      uint64_t bytes, PieceSource* source) noexcept = 0;
  // A payload that comes from a device. Takes `copy` in any case.
  virtual void when_ready(const Call& call, const Observation& observation, const Keep& keep,
                          uint64_t bytes, DeviceCopy* copy) noexcept = 0;
  // The same tensor, unchanged, was recorded as `earlier` (Slot::record) in this pass: both keys
  // refer to one payload.
  virtual void refer(const Call& call, const Observation& observation, const Keep& keep,
                     uint64_t earlier) noexcept = 0;
  // Seen and wanted but not kept beyond meta; `detail` is free text ("sparse_coo", "cuda:0"), at
  // most 200 bytes kept.
  virtual void skip(const Call& call, const Observation& observation, const Keep& keep,
                    SkipReason reason, std::string_view detail) noexcept = 0;
  // Writes the call record. `arguments` are the bytes of an ArgumentList with every tensor argument
  // and result of the call; `text` those of a CallText with its scalar and string arguments.
  virtual void end_call(const Call& call, std::span<const std::byte> arguments,
                        std::span<const std::byte> text) noexcept = 0;
  // The plan selects this operator: the coverage expects to see it
  // called. Once per operator is enough.
  virtual void expect(OperatorId op) noexcept = 0;
  // A line for the coverage that belongs to no call: "torch.compile region not
  // captured", once per distinct text.
  virtual void note(std::string_view text) noexcept = 0;
};

}  // namespace tdump
