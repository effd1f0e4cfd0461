// Device: what tdump asks of an accelerator's runtime, and nothing more. One object per device of
// the process, made by the shared object of that runtime (collectors/cuda) or by a test.
//
// Nothing here waits for the device. What is enqueued on a stream of the job runs in its order and
// adds no dependency on anything but that stream; tdump's own stream (Fetch) waits for nothing of
// the job. Threads: any; calls for one event never overlap. noexcept; a failure is a Status or
// EventState::kFailed, and leaves the job's streams as they were.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectors/device/strided_source.h"
#include "core/status.h"

namespace tdump::collectors {

// A stream as the job's runtime names it (a cudaStream_t), borrowed for one call.
using NativeStream = void*;

enum class EventState : uint8_t { kPending, kReady, kFailed };

// Memory of a staging ring: `device` addresses it on the device, `host` is page-locked memory of
// the same size.
struct StagingMemory {
  uint64_t device = 0;
  std::byte* host = nullptr;
};

class Device {
 public:
  virtual ~Device() = default;

  // Called once, before anything else but InGraphCapture(): takes memory and makes `events` events,
  // numbered from 0. What was taken is kept until the process ends.
  virtual Status Allocate(uint64_t bytes, uint32_t events, StagingMemory* memory) noexcept = 0;
  // Work on the stream goes into a graph now instead of running.
  virtual bool InGraphCapture(NativeStream stream) noexcept = 0;

  // Enqueued on `stream`: `bytes` bytes; both ends on the device.
  virtual Status Copy(uint64_t to, uint64_t from, uint64_t bytes, NativeStream stream) noexcept = 0;
  // Enqueued on `stream`: units [first, first + count) of the canonical form of `from`.
  virtual Status Gather(uint64_t to, const StridedSource& from, uint64_t first, uint64_t count,
                        NativeStream stream) noexcept = 0;
  // Enqueued on `stream`: the XXH3-128 of each 16 KiB tile of `bytes` bytes, 16 bytes each in
  // canonical order. kUnsupported: not by this device.
  virtual Status Digest(uint64_t to, uint64_t from, uint64_t bytes,
                        NativeStream stream) noexcept = 0;
  // Records `event` behind what is enqueued on `stream`.
  virtual Status Mark(uint32_t event, NativeStream stream) noexcept = 0;
  virtual EventState Query(uint32_t event) noexcept = 0;
  // What the device said when Query() was last kFailed.
  virtual const char* Error() noexcept = 0;
  // On tdump's own stream: `bytes` bytes to the host, then `event`.
  virtual Status Fetch(std::byte* to, uint64_t from, uint64_t bytes, uint32_t event) noexcept = 0;
};

}  // namespace tdump::collectors
