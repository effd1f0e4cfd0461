#include "collectors/torch/plugin.h"

#include <atomic>

#include "collectors/torch/aten_collector.h"
#include "collectors/torch/cxx_api.h"
#include "collectors/torch/device_tensors.h"
#include "collectors/torch/exported_calls.h"
#include "collectors/torch/step_marks.h"

namespace tdump::collectors {
namespace {

// Constant-initialised: opening this object runs no code that needs LibTorch.
std::atomic<Runtime*> current{nullptr};

}  // namespace

Runtime* CurrentRuntime() noexcept { return current.load(std::memory_order_acquire); }

}  // namespace tdump::collectors

extern "C" {

int tdump_torch_start(tdump::Runtime* runtime) {
  if (runtime == nullptr || runtime->stamp != tdump::kBuildStamp) return 0;
  try {
    const bool started = tdump::collectors::CurrentRuntime() != nullptr;
    tdump::collectors::current.store(runtime, std::memory_order_release);
    if (!started) {
      runtime->prepare_devices = &tdump::collectors::PrepareDevices;
      tdump::collectors::StartStepMarks(runtime);
      tdump::collectors::StartAtenCollector(runtime);
      tdump::collectors::DefineExportedOperators();
    }
  } catch (...) {
    tdump::collectors::current.store(nullptr, std::memory_order_release);
    return 0;
  }
  return 1;
}

const void* tdump_torch_api(int version) {
  return version == TDUMP_API_VERSION ? tdump::collectors::CxxApi() : nullptr;
}

}  // extern "C"
