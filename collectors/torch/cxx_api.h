// What the public header (collectors/include/tdump/tdump.h) and the shim reach: calls of C++
// modules, taps, steps.
#pragma once

#include <cstddef>

#include "collectors/include/tdump/tdump_api.h"
#include "collectors/torch/export.h"

namespace tdump::collectors {

// The table of the public header. Its functions do nothing without a started runtime.
const TdumpApi* CxxApi() noexcept;

}  // namespace tdump::collectors

extern "C" {
// From the shim, around a forward of a torch::nn module: `tensors` are `const at::Tensor*`,
// `module` is a `const torch::nn::Module*`. Null for a module that is not watched; else the token
// for the end, which gets what the forward returned.
TDUMP_TORCH_EXPORT void* tdump_torch_forward_begin(const void* module, const void* const* tensors,
                                                   size_t count);
TDUMP_TORCH_EXPORT void tdump_torch_forward_end(void* token, const void* result);
// An exception passes through the frame at `frame` (its canonical frame address): the forwards that
// began in it, below it on the stack, are over.
TDUMP_TORCH_EXPORT void tdump_torch_forward_unwound(const void* frame);
}
