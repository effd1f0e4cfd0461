// Stager: takes snapshots of tensors on one device.
//
// Protocol of one snapshot:
//   1. Begin(), on the thread that runs the operator: room in the staging ring, then, on the stream
//      the operator ran on, a copy into it (or a gather, for a tensor that is not contiguous) and
//      an event. The source may be overwritten or freed right after: what does that is behind the
//      copy on the stream. Where only hash and statistics are asked for, digests and moments are
//      made in place of the copy, and nothing but them leaves the device.
//   2. Poll(), on the sink's thread: once the event is over, the bytes go to page-locked memory on
//      tdump's own stream; once that is over, the copy is ready. Nobody waits for a stream.
//   3. Release(): the room is free again, at once or when the device is done with it.
// The ring's memory on the device has a twin of the same size on the host, taken together in Make()
// and kept until the process ends: nothing is allocated afterwards.
//
// Staging full: Begin() waits as long as the request says for the sink to give room back (which
// waits for tdump's own stream only, never for the job's), then makes hash and statistics in place
// of the payload, or answers kStagingLimit. A tensor larger than the ring goes in pieces (Pieces),
// each of which waits until the device has done it.
// After an error of the device nothing more is asked of it: every Begin() answers kDeviceError.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "collectors/device/device.h"
#include "collectors/device/staging_ring.h"
#include "core/sink.h"

namespace tdump::collectors {

struct StagerOptions {
  uint64_t bytes = 256ull << 20;  // memory.device
  uint32_t copies = 8192;         // under way at a time
};

class Stager {
 public:
  struct Request {
    StridedSource source;
    DType dtype;
    Parts parts = kPartNone;
    NativeStream stream = nullptr;
    int64_t max_wait_ns = 0;  // for room; 0: not at all
    // Where there is no room for the payload, hash and statistics are made in its place: a copy
    // that has neither payload nor error.
    bool summarise = false;
  };
  // Either `copy`, or why there is none.
  struct Outcome {
    DeviceCopy* copy = nullptr;
    SkipReason reason = SkipReason::kNone;
    std::string_view detail = {};
    int64_t waited_ns = 0;
  };

  // Error: the device refused the memory. `device` outlives the stager.
  static Result<std::unique_ptr<Stager>> Make(Device* device,
                                              const StagerOptions& options) noexcept;

  ~Stager();

  Outcome Begin(const Request& request) noexcept;
  // A payload for Sink::stream(), of any size. Waits for the device, at most the request's
  // `max_wait_ns` for each piece. Lives as long as `request`.
  class Pieces final : public PieceSource {
   public:
    Pieces(Stager* stager, const Request& request) : stager_(stager), request_(request) {}
    bool CopyTo(uint64_t offset, std::span<std::byte> out) noexcept override;

   private:
    Stager* stager_;
    const Request& request_;
  };

  // Largest payload that Begin() takes.
  uint64_t max_payload() const { return ring_.capacity() / 2; }
  uint64_t capacity() const { return ring_.capacity(); }
  // Copies not yet released.
  uint32_t under_way() const noexcept;
  // The error that ended the use of the device, "" while there is none. Stays valid.
  std::string_view error() const noexcept;

 private:
  class Copy;
  struct Layout;

  Stager(Device* device, const StagerOptions& options, StagingMemory memory);
  Copy* TakeCopy(uint64_t bytes, int64_t max_wait_ns, int64_t* waited_ns) noexcept;
  bool Summarise(Request* request) noexcept;
  Status Enqueue(const Request& request, const Layout& layout, uint64_t at) noexcept;
  Status EnqueuePayload(const Request& request, uint64_t to) noexcept;
  Status EnqueueReduction(const Request& request, const Layout& layout, uint64_t at) noexcept;
  bool CopyPiece(const Request& request, uint64_t offset, std::span<std::byte> out) noexcept;
  bool WaitUntilReady(Copy* copy, int64_t max_wait_ns) noexcept;
  void Give(Copy* copy) noexcept;
  void GiveLater(Copy* copy) noexcept;
  void ReclaimLate() noexcept;  // with the lock held
  Outcome Broken(std::string_view text) noexcept;

  Device* const device_;
  const StagerOptions options_;
  const StagingMemory memory_;

  mutable std::mutex mutex_;  // guards ring_ and late_; held for a few instructions
  std::condition_variable room_;
  StagingRing ring_;
  std::vector<std::unique_ptr<Copy>> copies_;  // by slot of the ring
  std::vector<Copy*> late_;                    // released while the device still works on them

  std::atomic<bool> broken_{false};
  std::mutex error_mutex_;
  std::string error_;  // written once, before broken_
};

}  // namespace tdump::collectors
