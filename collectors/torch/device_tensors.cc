#include "collectors/torch/device_tensors.h"

#include <ATen/core/TensorBase.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "collectors/device/stager.h"
#include "collectors/device/step_budget.h"
#include "collectors/torch/plugin.h"
#include "core/beside.h"
#include "core/fork_mutex.h"

namespace tdump::collectors {
namespace {

constexpr int kMaxDevices = 64;
constexpr auto kLongestDrain = std::chrono::seconds(10);

// tdump_cuda_open() of the object beside this one. Null: there is no CUDA in the process, or
// `error` says why.
DeviceOpener FindCuda(std::string* error) {
  // Without CUDA in the process the object that needs it is not opened either.
  if (dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY) == nullptr) return nullptr;
  const auto path = PathBeside(reinterpret_cast<const void*>(&PrepareDevices), "libtdump_cuda.so");
  if (!path.ok()) {
    *error = path.status().message();
    return nullptr;
  }
  void* library = dlopen(path->c_str(), RTLD_NOW | RTLD_LOCAL);
  void* open = library != nullptr ? dlsym(library, "tdump_cuda_open") : nullptr;
  if (open == nullptr) {
    const char* why = dlerror();  // names the file and what is missing
    *error = why != nullptr ? why : *path + " could not be opened";
  }
  return reinterpret_cast<DeviceOpener>(open);
}

// The stagers of this process, by CUDA device. Never destroyed: the sink polls copies to the end.
class Stagers {
 public:
  static Stagers& Get() {
    static auto* one = new Stagers;
    return *one;
  }

  // Null: not used by the job yet, or refused (noted once).
  Stager* Of(int ordinal, Runtime* runtime) {
    if (ordinal < 0 || ordinal >= kMaxDevices) return nullptr;
    if (Stager* stager = made_[ordinal].load(std::memory_order_acquire)) return stager;
    std::lock_guard lock(mutex_);
    if (Stager* stager = made_[ordinal].load(std::memory_order_relaxed)) return stager;
    if (refused_[ordinal]) return nullptr;
    return Make(ordinal, runtime);
  }
  void Use(DeviceOpener open) {
    std::lock_guard lock(mutex_);
    open_ = open;
  }
  uint64_t under_way() const {
    uint64_t count = 0;
    for (const auto& stager : made_) {
      const Stager* one = stager.load(std::memory_order_acquire);
      if (one != nullptr && one->error().empty()) count += one->under_way();
    }
    return count;
  }
  // Says once that a device gives nothing more.
  void TellError(const Stager& stager, int ordinal, Sink& sink) {
    if (told_[ordinal].exchange(true)) return;
    sink.note("cuda:" + std::to_string(ordinal) + ": " + std::string(stager.error()) +
              "; its tensors are recorded without data from here on");
  }

 private:
  // With the lock held.
  Stager* Make(int ordinal, Runtime* runtime) {
    std::string missing;
    if (open_ == nullptr) open_ = FindCuda(&missing);
    if (open_ == nullptr) return missing.empty() ? nullptr : Refuse(ordinal, runtime, missing);
    char error[512] = {};
    auto* device = static_cast<Device*>(open_(kBuildStamp, ordinal, error, sizeof error));
    if (device == nullptr) return error[0] == '\0' ? nullptr : Refuse(ordinal, runtime, error);
    auto stager = Stager::Make(device, {.bytes = runtime->staging_bytes});
    if (!stager.ok()) return Refuse(ordinal, runtime, stager.status().message());
    DrainAtExit();
    TellMissingKernels(*device, ordinal, runtime->sink);
    Stager* made = std::move(stager).value().release();
    made_[ordinal].store(made, std::memory_order_release);
    return made;
  }
  Stager* Refuse(int ordinal, Runtime* runtime, const std::string& why) {
    refused_[ordinal] = true;
    runtime->sink->note("cuda:" + std::to_string(ordinal) + ": no staging of " +
                        std::to_string(runtime->staging_bytes >> 20) + " MiB: " + why +
                        "; its tensors are recorded without data");
    return nullptr;
  }
  static void TellMissingKernels(const Device& device, int ordinal, Sink* sink) {
    const std::string_view error = device.KernelError();
    if (error.empty()) return;
    const std::string_view first_line = error.substr(0, error.find('\n'));
    sink->note("cuda:" + std::to_string(ordinal) +
               ": tdump's kernels could not be built or loaded: " + std::string(first_line) +
               "; tensors that are not contiguous are recorded without data, of the others hash "
               "and statistics are made on the host, which costs staging and transfer of the whole "
               "tensor. Put the libnvrtc that belongs to this CUDA driver on the library path");
  }
  // CUDA ends with the process's exit handlers, in reverse order of their registration: this one
  // runs before that of the driver, which is there already.
  static void DrainAtExit() {
    static std::once_flag once;
    std::call_once(once, [] {
      static const pid_t owner = ::getpid();
      std::atexit([] {
        if (::getpid() != owner) return;  // a forked child
        const auto until = std::chrono::steady_clock::now() + kLongestDrain;
        while (Get().under_way() != 0 && std::chrono::steady_clock::now() < until)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
      });
    });
  }

  ForkMutex mutex_;
  DeviceOpener open_ = nullptr;
  std::array<std::atomic<Stager*>, kMaxDevices> made_{};
  std::array<std::atomic<bool>, kMaxDevices> told_{};
  std::array<bool, kMaxDevices> refused_{};
};

NativeStream CurrentStream(c10::Device device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  return guard.getStreamNativeHandle(guard.getStream(device));
}

struct Handover {
  Sink& sink;
  const Call& call;
  const Observation& observation;
  const Decision& decision;

  void Skip(SkipReason reason, std::string_view detail) const {
    sink.skip(call, observation, decision, reason, detail);
  }
};

int64_t NowNs() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

// Of this process, whatever the number of devices.
StepBudget& WaitBudget() {
  static auto* one = new StepBudget;
  return *one;
}

void StageInPieces(const Handover& to, Stager* stager, const Stager::Request& request) {
  const int64_t start = NowNs();
  Stager::Pieces pieces(stager, request);
  to.sink.stream(to.call, to.observation, to.decision, request.source.bytes(), &pieces);
  WaitBudget().Add(NowNs() - start);
}

void Stage(const Handover& to, Stager* stager, Stager::Request request, const Runtime& runtime,
           int ordinal) {
  const uint64_t bytes = request.source.bytes();
  request.max_wait_ns = std::min(runtime.staging_wait_ns,
                                 WaitBudget().Left(to.call.pass, runtime.staging_share, NowNs()));
  // Only where the whole wait is allowed: a tensor that is given up half way was waited for in
  // vain.
  const bool pieces = bytes > stager->capacity() / 2 && request.max_wait_ns > 0 &&
                      request.max_wait_ns == runtime.staging_wait_ns;
  request.summarise = runtime.staging_stats && !pieces;
  const Stager::Outcome outcome = stager->Begin(request);
  if (outcome.waited_ns != 0) WaitBudget().Add(outcome.waited_ns);
  if (outcome.copy != nullptr)
    return to.sink.when_ready(to.call, to.observation, to.decision, bytes, outcome.copy);
  if (outcome.reason == SkipReason::kStagingLimit && pieces)
    return StageInPieces(to, stager, request);
  to.Skip(outcome.reason, outcome.detail);
  if (outcome.reason == SkipReason::kDeviceError)
    Stagers::Get().TellError(*stager, ordinal, to.sink);
}

}  // namespace

void CaptureOnDevice(Sink& sink, const Call& call, const Observation& observation,
                     const Decision& decision, const at::TensorBase& tensor,
                     const TensorView& view) {
  const Handover to{sink, call, observation, decision};
  uint64_t bytes = 0;
  if (!PayloadBytes(view.meta, &bytes)) return to.Skip(SkipReason::kNoData, "size overflows");
  if (decision.parts == kPartMeta || bytes == 0) {
    sink.reserve(call, observation, decision, 0);
    return;
  }
  const c10::Device device = tensor.device();
  Runtime* runtime = CurrentRuntime();
  Stager* stager =
      runtime != nullptr && device.is_cuda() ? Stagers::Get().Of(device.index(), runtime) : nullptr;
  if (stager == nullptr) return to.Skip(SkipReason::kNotOnCpu, view.meta.device);
  Stager::Request request{.dtype = view.meta.dtype, .parts = decision.parts};
  if (!MakeStridedSource(view.device_data, view.meta.sizes, view.meta.strides,
                         view.meta.dtype.unit_bytes(), view.kind, view.meta.conj, view.meta.neg,
                         &request.source)) {
    return to.Skip(SkipReason::kCopyFailed, "more than 16 dimensions, or no negative of this type");
  }
  request.stream = CurrentStream(device);
  Stage(to, stager, request, *runtime, device.index());
}

void UseDeviceOpener(DeviceOpener open) noexcept { Stagers::Get().Use(open); }

uint64_t PrepareDevices() noexcept try {
  Runtime* runtime = CurrentRuntime();
  if (runtime == nullptr) return 0;
  bool any = false;
  for (int ordinal = 0; ordinal < kMaxDevices; ++ordinal)
    any |= Stagers::Get().Of(ordinal, runtime) != nullptr;
  return any ? runtime->staging_bytes : 0;
} catch (...) {  // out of memory
  return 0;
}

}  // namespace tdump::collectors
