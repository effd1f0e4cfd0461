#include "collectors/cuda/cuda_device.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "collectors/cuda/compiler.h"
#include "collectors/cuda/kernel_arguments.h"
#include "core/statistics_tile.h"

namespace tdump::collectors::cuda {
namespace {

constexpr Code kCaptureImplicit = 906;  // the legacy stream, while another one captures
constexpr unsigned kGatherThreads = 256;
constexpr uint64_t kGatherBlocks = 4096;

Stream AsStream(NativeStream stream) { return static_cast<Stream>(stream); }

KernelType KernelTypeOf(const DType& dtype) {
  struct Known {
    std::string_view name;
    KernelType type;
  };
  static constexpr Known kKnown[] = {
      {"float32", KernelType::kFloat32},
      {"bfloat16", KernelType::kBfloat16},
      {"float16", KernelType::kFloat16},
      {"float64", KernelType::kFloat64},
      {"float8_e4m3fn", KernelType::kFloat8E4m3fn},
      {"float8_e5m2", KernelType::kFloat8E5m2},
      {"float8_e4m3fnuz", KernelType::kFloat8E4m3fnuz},
      {"float8_e5m2fnuz", KernelType::kFloat8E5m2fnuz},
  };
  for (const Known& known : kKnown) {
    if (known.name == dtype.view()) return known.type;
  }
  return KernelType::kNone;
}

// Every index and offset of the tensor, in units, fits 32 bits.
bool IsNarrow(const StridedSource& source) {
  uint64_t reach = source.units;
  for (uint32_t i = 0; i < source.dimensions; ++i) {
    if (source.strides[i] >> 32 != 0 || source.sizes[i] >> 32 != 0) return false;
    reach += (source.sizes[i] - 1) * source.strides[i];
    if (reach >> 32 != 0) return false;
  }
  return true;
}

Status NoContext() { return Internal("the CUDA context of the device is gone"); }

}  // namespace

// The device's context is current, and what is unsafe in a graph capture of another thread is
// allowed, while this lives.
class CudaDevice::Entered {
 public:
  explicit Entered(const CudaDevice& device) : driver_(device.driver_) {
    Context current = nullptr;
    ok_ = driver_.context_current(&current) == kSuccess;
    if (ok_ && current != device.context_) {
      pushed_ = driver_.context_push(device.context_) == kSuccess;
      ok_ = pushed_;
    }
    relaxed_ = ok_ && driver_.capture_mode(&mode_) == kSuccess;
  }
  ~Entered() {
    if (relaxed_) (void)driver_.capture_mode(&mode_);
    Context popped = nullptr;
    if (pushed_) (void)driver_.context_pop(&popped);
  }
  Entered(const Entered&) = delete;
  bool ok() const { return ok_; }

 private:
  const Driver& driver_;
  int mode_ = kCaptureRelaxed;
  bool ok_ = false, pushed_ = false, relaxed_ = false;
};

Result<std::unique_ptr<CudaDevice>> CudaDevice::Open(int ordinal) noexcept {
  TDUMP_ASSIGN_OR_RETURN(const Driver* driver, Driver::Get());
  return Open(driver, ordinal);
}

Result<std::unique_ptr<CudaDevice>> CudaDevice::Open(const Driver* driver, int ordinal) noexcept
    try {
  int device = 0, active = 0;
  unsigned flags = 0;
  if (driver->device_get(&device, ordinal) != kSuccess ||
      driver->primary_state(device, &flags, &active) != kSuccess || active == 0) {
    return NotFound("the job does not use this CUDA device");
  }
  Context context = nullptr;
  TDUMP_RETURN_IF_ERROR(
      driver->Check(driver->primary_retain(&context, device), "cuDevicePrimaryCtxRetain"));
  return std::unique_ptr<CudaDevice>(new CudaDevice(driver, device, context));
} catch (...) {
  return Status(StatusCode::kInternal, "out of memory");
}

Status CudaDevice::Allocate(uint64_t bytes, uint32_t events, StagingMemory* memory) noexcept {
  const Entered entered(*this);
  if (!entered.ok()) return NoContext();
  if (Status taken = Take(bytes, events); !taken.ok()) {
    GiveBack();
    return taken;
  }
  const Status loaded = LoadKernels();
  if (!loaded.ok()) kernel_error_ = loaded.message();
  *memory = {staging_, static_cast<std::byte*>(host_)};
  return {};
}

// What a refusal leaves in its output is never taken for a handle.
Status CudaDevice::Take(uint64_t bytes, uint32_t events) noexcept try {
  events_.reserve(events);
  DevicePointer staging = 0;
  TDUMP_RETURN_IF_ERROR(driver_.Check(driver_.memory_take(&staging, bytes), "cuMemAlloc"));
  staging_ = staging;
  void* host = nullptr;
  TDUMP_RETURN_IF_ERROR(
      driver_.Check(driver_.host_take(&host, bytes, kHostPortable), "cuMemHostAlloc"));
  host_ = host;
  Stream side = nullptr;
  TDUMP_RETURN_IF_ERROR(
      driver_.Check(driver_.stream_create(&side, kStreamNonBlocking), "cuStreamCreate"));
  side_ = side;
  for (uint32_t i = 0; i < events; ++i) {
    Event event = nullptr;
    TDUMP_RETURN_IF_ERROR(
        driver_.Check(driver_.event_create(&event, kEventDisableTiming), "cuEventCreate"));
    events_.push_back(event);
  }
  return {};
} catch (...) {
  return Status(StatusCode::kNoSpace, "out of host memory");
}

// What Take() got before it was refused the rest.
void CudaDevice::GiveBack() noexcept {
  for (Event event : events_) (void)driver_.event_destroy(event);
  events_.clear();
  if (side_ != nullptr) (void)driver_.stream_destroy(std::exchange(side_, nullptr));
  if (host_ != nullptr) (void)driver_.host_give(std::exchange(host_, nullptr));
  if (staging_ != 0) (void)driver_.memory_give(std::exchange(staging_, 0));
}

Status CudaDevice::LoadKernels() noexcept try {
  int major = 0, minor = 0;
  TDUMP_RETURN_IF_ERROR(driver_.Check(driver_.device_attribute(&major, kComputeMajor, device_),
                                      "cuDeviceGetAttribute"));
  TDUMP_RETURN_IF_ERROR(driver_.Check(driver_.device_attribute(&minor, kComputeMinor, device_),
                                      "cuDeviceGetAttribute"));
  TDUMP_ASSIGN_OR_RETURN(const std::string code, CompileKernels(major, minor));
  Module module = nullptr;
  TDUMP_RETURN_IF_ERROR(
      driver_.Check(driver_.module_load(&module, code.c_str()), "cuModuleLoadData"));
  const auto find = [&](const char* name, Function* function) {
    return driver_.Check(driver_.module_function(function, module, name), name);
  };
  Function gather = nullptr, reduce = nullptr, digest = nullptr;
  TDUMP_RETURN_IF_ERROR(find("tdump_gather", &gather));
  TDUMP_RETURN_IF_ERROR(find("tdump_reduce", &reduce));
  TDUMP_RETURN_IF_ERROR(find("tdump_digest", &digest));
  gather_ = gather;
  reduce_ = reduce;
  digest_ = digest;
  return {};
} catch (...) {
  return Status(StatusCode::kNoSpace, "out of host memory");
}

bool CudaDevice::InGraphCapture(NativeStream stream) noexcept {
  int state = kCaptureNone;
  const Code result = driver_.stream_capturing(AsStream(stream), &state);
  return result == kSuccess ? state != kCaptureNone : result == kCaptureImplicit;
}

Status CudaDevice::Copy(uint64_t to, uint64_t from, uint64_t bytes, NativeStream stream) noexcept {
  const Entered entered(*this);
  if (!entered.ok()) return NoContext();
  return driver_.Check(driver_.copy_on_device(to, from, bytes, AsStream(stream)),
                       "cuMemcpyDtoDAsync");
}

Status CudaDevice::Launch(Function function, uint64_t blocks, unsigned threads, unsigned shared,
                          void* arguments, NativeStream stream) {
  void* parameters[] = {arguments};
  return driver_.Check(driver_.launch(function, static_cast<unsigned>(blocks), 1, 1, threads, 1, 1,
                                      shared, AsStream(stream), parameters, nullptr),
                       "cuLaunchKernel");
}

Status CudaDevice::Gather(uint64_t to, const StridedSource& from, uint64_t first, uint64_t count,
                          NativeStream stream) noexcept try {
  const uint64_t unit = from.unit_bytes;
  const bool known = unit == 1 || unit == 2 || unit == 4 || unit == 8 || unit == 16;
  if (gather_ == nullptr || !known || from.address % std::min<uint64_t>(unit, 8) != 0)
    return Unsupported("no kernel for this tensor");
  const Entered entered(*this);
  if (!entered.ok()) return NoContext();
  GatherArguments a{.to = to,
                    .from = from.address,
                    .first = first,
                    .count = count,
                    .flip = {from.flip[0], from.flip[1]},
                    .dimensions = from.dimensions,
                    .unit_bytes = from.unit_bytes,
                    .negate = from.negate,
                    .narrow = IsNarrow(from) ? 1u : 0u};
  static_assert(GatherArguments::kMaxDimensions == StridedSource::kMaxDimensions);
  std::copy_n(from.sizes, from.dimensions, a.sizes);
  std::copy_n(from.strides, from.dimensions, a.strides);
  const uint64_t blocks = std::min(kGatherBlocks, (count + kGatherThreads - 1) / kGatherThreads);
  return Launch(gather_, blocks, kGatherThreads, 0, &a, stream);
} catch (...) {
  return Status(StatusCode::kInternal, "out of host memory");
}

bool CudaDevice::KnowsStatistics(const DType& dtype) noexcept {
  return reduce_ != nullptr && KernelTypeOf(dtype) != KernelType::kNone;
}

Status CudaDevice::Reduce(const Reduction& r, NativeStream stream) noexcept try {
  if (reduce_ == nullptr) return Unsupported("no kernel");
  const Entered entered(*this);
  if (!entered.ok()) return NoContext();
  ReduceArguments a{.from = r.from,
                    .bytes = r.bytes,
                    .digests = r.digests,
                    .moments = r.moments,
                    .counts = r.counts,
                    .type = KernelTypeOf(r.dtype)};
  if (r.moments != 0) {
    if (a.type == KernelType::kNone) return Unsupported("no kernel for this dtype");
    TDUMP_RETURN_IF_ERROR(driver_.Check(
        driver_.fill(r.counts, 0, sizeof(ValueCounts), AsStream(stream)), "cuMemsetD8Async"));
  }
  const auto blocks_of = [&](uint64_t bytes) { return (r.bytes + bytes - 1) / bytes; };
  if (r.moments == 0 && r.from % 8 == 0) {
    constexpr uint64_t kTiles = ReduceArguments::kThreads / 32;  // of a block, one a warp
    return Launch(digest_, blocks_of(kTiles * 16384), ReduceArguments::kThreads, 0, &a, stream);
  }
  a.region =
      a.type == KernelType::kFloat64 ? ReduceArguments::kWideRegion : ReduceArguments::kRegion;
  return Launch(reduce_, blocks_of(a.region), ReduceArguments::kThreads, a.region, &a, stream);
} catch (...) {
  return Status(StatusCode::kInternal, "out of host memory");
}

Status CudaDevice::Mark(uint32_t event, NativeStream stream) noexcept {
  const Entered entered(*this);
  if (!entered.ok()) return NoContext();
  return driver_.Check(driver_.event_record(events_[event], AsStream(stream)), "cuEventRecord");
}

EventState CudaDevice::Query(uint32_t event) noexcept {
  const Entered entered(*this);
  const Code result = entered.ok() ? driver_.event_query(events_[event]) : 201;  // invalid context
  if (result == kSuccess) return EventState::kReady;
  if (result == kNotReady) return EventState::kPending;
  last_error_ = result;
  return EventState::kFailed;
}

const char* CudaDevice::Error() noexcept {
  const char* text = nullptr;
  (void)driver_.error_text(last_error_, &text);
  return text != nullptr ? text : "unknown CUDA error";
}

Status CudaDevice::Fetch(std::byte* to, uint64_t from, uint64_t bytes, uint32_t event) noexcept {
  const Entered entered(*this);
  if (!entered.ok()) return NoContext();
  TDUMP_RETURN_IF_ERROR(
      driver_.Check(driver_.copy_to_host(to, from, bytes, side_), "cuMemcpyDtoHAsync"));
  return driver_.Check(driver_.event_record(events_[event], side_), "cuEventRecord");
}

}  // namespace tdump::collectors::cuda
