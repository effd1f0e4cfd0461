// The `aten` collector: operators seen through at::RecordFunction.
#pragma once

#include "collectors/torch/export.h"
#include "core/runtime.h"

namespace tdump::collectors {

// Installs the callbacks when the plan can want an ATen operator, and switches them on while a pass
// is armed, off otherwise (a disabled callback costs nothing). Called after every boundary.
TDUMP_TORCH_EXPORT void FollowGate(Runtime* runtime) noexcept;

}  // namespace tdump::collectors
