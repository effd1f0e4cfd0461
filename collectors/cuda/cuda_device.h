// CudaDevice: the Device of one CUDA device, in the primary context that the job's runtime uses.
// Every call leaves the calling thread's current context as it was, and is legal while another
// thread captures a graph. See collectors/device/device.h.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "collectors/cuda/driver.h"
#include "collectors/device/device.h"

namespace tdump::collectors::cuda {

class CudaDevice final : public Device {
 public:
  // The job has to have initialised CUDA and made the device's primary context. kNotFound: not yet.
  static Result<std::unique_ptr<CudaDevice>> Open(int ordinal) noexcept;
  // The same with a driver that outlives the device.
  static Result<std::unique_ptr<CudaDevice>> Open(const Driver* driver, int ordinal) noexcept;

  Status Allocate(uint64_t bytes, uint32_t events, StagingMemory* memory) noexcept override;
  bool InGraphCapture(NativeStream stream) noexcept override;
  Status Copy(uint64_t to, uint64_t from, uint64_t bytes, NativeStream stream) noexcept override;
  Status Gather(uint64_t to, const StridedSource& from, uint64_t first, uint64_t count,
                NativeStream stream) noexcept override;
  Status Reduce(const Reduction& reduction, NativeStream stream) noexcept override;
  bool KnowsStatistics(const DType& dtype) noexcept override;
  Status Mark(uint32_t event, NativeStream stream) noexcept override;
  EventState Query(uint32_t event) noexcept override;
  const char* Error() noexcept override;
  const char* KernelError() const noexcept override { return kernel_error_.c_str(); }
  Status Fetch(std::byte* to, uint64_t from, uint64_t bytes, uint32_t event) noexcept override;

 private:
  class Entered;

  CudaDevice(const Driver* driver, int device, Context context)
      : driver_(*driver), device_(device), context_(context) {}
  Status Take(uint64_t bytes, uint32_t events) noexcept;
  void GiveBack() noexcept;
  Status LoadKernels() noexcept;
  Status Launch(Function function, uint64_t blocks, unsigned threads, unsigned shared,
                void* arguments, NativeStream stream);

  const Driver& driver_;
  const int device_;
  const Context context_;
  DevicePointer staging_ = 0;
  void* host_ = nullptr;
  Stream side_ = nullptr;
  std::vector<Event> events_;
  Function gather_ = nullptr, reduce_ = nullptr, digest_ = nullptr;  // null: kernel_error_ says why
  std::string kernel_error_;
  std::atomic<Code> last_error_{kSuccess};
};

}  // namespace tdump::collectors::cuda
