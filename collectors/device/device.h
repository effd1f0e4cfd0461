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
#include "core/types.h"

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

// What is made of a payload on the device; places on the device, 0: not wanted.
struct Reduction {
  uint64_t from = 0, bytes = 0;
  uint64_t digests = 0;  // XXH3-128 of each 16 KiB, 16 bytes each in canonical order
  uint64_t moments = 0;  // TileMoments of each 4,096 elements (core/statistics_tile.h)
  uint64_t counts = 0;   // with moments: one ValueCounts of all
  DType dtype;
};

class Device {
 public:
  virtual ~Device() = default;

  // Called once, before anything else but InGraphCapture(): takes memory and makes `events` events,
  // numbered from 0. What was taken is kept until the process ends; after an error nothing is.
  virtual Status Allocate(uint64_t bytes, uint32_t events, StagingMemory* memory) noexcept = 0;
  // Work on the stream goes into a graph now instead of running.
  virtual bool InGraphCapture(NativeStream stream) noexcept = 0;

  // Enqueued on `stream`: `bytes` bytes; both ends on the device.
  virtual Status Copy(uint64_t to, uint64_t from, uint64_t bytes, NativeStream stream) noexcept = 0;
  // Enqueued on `stream`: units [first, first + count) of the canonical form of `from`.
  // kUnsupported: not by this device, and nothing was enqueued.
  virtual Status Gather(uint64_t to, const StridedSource& from, uint64_t first, uint64_t count,
                        NativeStream stream) noexcept = 0;
  // Enqueued on `stream`. kUnsupported: not by this device, and nothing was enqueued.
  virtual Status Reduce(const Reduction& reduction, NativeStream stream) noexcept = 0;
  // Reduce() can make the moments of this dtype.
  virtual bool KnowsStatistics(const DType& dtype) noexcept = 0;
  // Records `event` behind what is enqueued on `stream`.
  virtual Status Mark(uint32_t event, NativeStream stream) noexcept = 0;
  virtual EventState Query(uint32_t event) noexcept = 0;
  // What the device said when Query() was last kFailed.
  virtual const char* Error() noexcept = 0;
  // Why Gather() and Reduce() answer kUnsupported to everything, "" where they do not. Known, and
  // the same, from Allocate() on.
  virtual const char* KernelError() const noexcept = 0;
  // On tdump's own stream: `bytes` bytes to the host, then `event`.
  virtual Status Fetch(std::byte* to, uint64_t from, uint64_t bytes, uint32_t event) noexcept = 0;
};

}  // namespace tdump::collectors
