// The `kernels` collector: launches of the kernels in code that Inductor compiled with its debug
// printer (cpp_wrapper and AOTInductor). The shim (launch/shim/kernels.cc) hands over what such
// code hands to the printer: each argument of each kernel, before and after.
//
// A launch is a call of an operator of the kernel's name, below the innermost open module; its
// arguments are records of the roles before and after. A run of an AOTInductor model that is inside
// no module is an outermost call for the clock. See core/kernels.h for the modes.
#pragma once

#include "collectors/torch/export.h"

extern "C" {

// Of aoti_torch_save_tensor_handle: `reports` is what tdump_runtime_kernels() gave, `tensor` an
// at::Tensor, `stage` "before_launch" or "after_launch", `site` the address it returns to. 1:
// taken; 0: the real function is to be called. noexcept.
TDUMP_TORCH_EXPORT int tdump_torch_kernel_argument(void* reports, const void* tensor,
                                                   const char* arg, const char* stage,
                                                   const char* kernel, const void* site);
// The same of aoti_torch_print_tensor_handle: "before_launch - kernel - argument".
TDUMP_TORCH_EXPORT int tdump_torch_kernel_message(void* reports, const void* tensor,
                                                  const char* message, const void* site);
// Around a run of an AOTInductor model, on its thread. noexcept.
TDUMP_TORCH_EXPORT void tdump_torch_model_begin();
TDUMP_TORCH_EXPORT void tdump_torch_model_end(int threw);

}  // extern "C"
