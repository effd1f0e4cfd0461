// The border of libtdump_torch.so. Opened at run time once libtorch_cpu is mapped; see
// docs/design.md, "Parts".
//
// Order: read tdump_torch_info() (touches nothing of LibTorch) and compare it with the LibTorch of
// the process; only then call tdump_torch_start(). tdump_torch_api() answers the public header
// (collectors/include/tdump/tdump_api.h) and may be called at any time: without a started runtime
// its functions do nothing.
#pragma once

#include <cstdint>

#include "collectors/torch/export.h"
#include "core/runtime.h"

// What this object was built for. Plain data, so that it can be read whatever LibTorch is mapped.
struct TdumpTorchInfo {
  uint32_t bytes = sizeof(TdumpTorchInfo);
  uint32_t cxx11_abi = 0;          // _GLIBCXX_USE_CXX11_ABI
  uint64_t stamp = 0;              // tdump::kBuildStamp
  uint64_t torch_abi_version = 0;  // what aoti_torch_abi_version() of the right LibTorch returns
  const char* torch_version = "";  // torch.__version__, "2.15.0+cu132"
};

extern "C" {
TDUMP_TORCH_EXPORT const TdumpTorchInfo* tdump_torch_info();
// 1: started (again: 1, nothing is done). 0: stays out: foreign stamp, or LibTorch threw. noexcept.
TDUMP_TORCH_EXPORT int tdump_torch_start(tdump::Runtime* runtime);
TDUMP_TORCH_EXPORT const void* tdump_torch_api(int version);
}

namespace tdump::collectors {

// The runtime given to tdump_torch_start(), null before. Lives as long as the process.
TDUMP_TORCH_EXPORT Runtime* CurrentRuntime() noexcept;

}  // namespace tdump::collectors
