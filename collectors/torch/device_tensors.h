// Tensors on devices: which of them can be recorded, and how their bytes come to the sink. CUDA, by
// libtdump_cuda.so beside this object, opened when the job has a CUDA tensor.
#pragma once

#include "collectors/torch/export.h"
#include "collectors/torch/tensor_view.h"
#include "core/runtime.h"

namespace tdump::collectors {

// Hands a tensor that `view` found on a device (`view.device_data`) to the sink: kept, or skipped
// with a reason. On the thread that runs the operator; nothing of the device is waited for but,
// with `memory.at_limit: block`, room in a full staging ring and, piece by piece, the copies of a
// tensor larger than it.
void CaptureOnDevice(Sink& sink, const Call& call, const Observation& observation,
                     const Decision& decision, const at::TensorBase& tensor,
                     const TensorView& view);

// Opens device `ordinal`: a Device*, or null and why (empty: the job does not use it yet).
// tdump_cuda_open() is one.
using DeviceOpener = void* (*)(uint64_t stamp, int ordinal, char* error, size_t error_bytes);
// Opens devices with this in place of libtdump_cuda.so; before the first tensor of a device.
TDUMP_TORCH_EXPORT void UseDeviceOpener(DeviceOpener open) noexcept;

// Takes the staging memory of every device that the job uses by now: before a serving engine
// measures what is free. Bytes a device, 0: none yet. What is used later takes its own when its
// first tensor is recorded.
TDUMP_TORCH_EXPORT uint64_t PrepareDevices() noexcept;

}  // namespace tdump::collectors
