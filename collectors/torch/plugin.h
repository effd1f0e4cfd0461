// The border of libtdump_torch.so. Opened at run time once libtorch_cpu is mapped and the text file
// beside it, libtdump_torch.info, was found to name that LibTorch (launch/runtime/torch_stamp.h).
//
// First call: tdump_torch_start(). tdump_torch_api() answers the public header
// (collectors/include/tdump/tdump_api.h) and may be called at any time: without a started runtime
// its functions do nothing.
#pragma once

#include "collectors/torch/export.h"
#include "core/runtime.h"

extern "C" {
// 1: started (again: 1, nothing is done). 0: stays out: foreign stamp, or LibTorch threw. noexcept.
TDUMP_TORCH_EXPORT int tdump_torch_start(tdump::Runtime* runtime);
TDUMP_TORCH_EXPORT const void* tdump_torch_api(int version);
}

namespace tdump::collectors {

// The runtime given to tdump_torch_start(), null before. Lives as long as the process.
TDUMP_TORCH_EXPORT Runtime* CurrentRuntime() noexcept;

}  // namespace tdump::collectors
