// Sink: where collectors put what they saw. One per process; implemented by io (io/capture_sink.h).
//
// Protocol of one observation, all on the thread that runs the operator:
//   1. The collector has opened a call (core/recorder.h) and asked the Plan for the parts to keep.
//   2. reserve() hands out room for the canonical payload, or says that there is none (data ==
//      nullptr): the sink then has already written down why, and the collector does nothing more.
//   3. The collector copies the tensor (row-major, conj and neg resolved, stride-0 dimensions once)
//      and calls commit(). Everything else (hashing, writing) happens on the sink's own thread.
//   4. end_call() after the last observation; the sink writes the call record.
// Every function is noexcept and thread-safe. Nothing here may fail the job.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/types.h"

namespace tdump {

// Opaque to collectors but for `data`.
struct Slot {
  // Room for `bytes` bytes, aligned to 64; nullptr: nothing to copy, do not commit.
  std::byte* data = nullptr;
  uint64_t bytes = 0;
  uint64_t record = 0;  // id of the record within its pass, for refer()
  void* impl = nullptr;
};

// A device collector's own type.
class DeviceEvent;

class Sink {
 public:
  virtual ~Sink() = default;

  // `parts` is what the plan asked for; `bytes` the canonical payload size (PayloadBytes), 0 when
  // only meta is kept. With kPartHash or kPartPayload and bytes == 0 (an empty tensor) the returned
  // data is nullptr and the record is complete without commit().
  virtual Slot reserve(const Call& call, const Observation& observation, Parts parts,
                       uint64_t bytes) noexcept = 0;
  virtual void commit(const Slot& slot) noexcept = 0;
  // Gives a slot back unfilled (the copy threw): the record is kept as meta with the reason.
  virtual void abandon(const Slot& slot, SkipReason reason) noexcept = 0;
  // Commits once `event` has happened on its device.
  virtual void commit_when(const Slot& slot, DeviceEvent* event) noexcept = 0;
  // The same tensor, unchanged, was recorded as `earlier` (Slot::record) in this pass: both keys
  // refer to one payload.
  virtual void refer(const Call& call, const Observation& observation, Parts parts,
                     uint64_t earlier) noexcept = 0;
  // Seen and wanted but not kept beyond meta; `detail` is free text ("sparse_coo", "cuda:0"), at
  // most 200 bytes kept.
  virtual void skip(const Call& call, const Observation& observation, Parts parts,
                    SkipReason reason, std::string_view detail) noexcept = 0;
  // Writes the call record. `arguments` has every tensor argument and result of the call.
  virtual void end_call(const Call& call, std::span<const ArgumentMeta> arguments) noexcept = 0;
  // The plan selects this operator: the coverage expects to see it
  // called. Once per operator is enough.
  virtual void expect(OperatorId op) noexcept = 0;
  // A line for the coverage that belongs to no call: "torch.compile region not
  // captured", once per distinct text.
  virtual void note(std::string_view text) noexcept = 0;
};

}  // namespace tdump
