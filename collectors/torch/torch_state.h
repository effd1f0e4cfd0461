// What LibTorch is doing on this thread. Kept apart from the collectors
// because its headers are slow to compile.
#pragma once

#include "collectors/torch/export.h"

namespace tdump::collectors {

TDUMP_TORCH_EXPORT bool GradEnabled() noexcept;
// A forward that runs while autograd works through a graph is a checkpoint recomputing.
TDUMP_TORCH_EXPORT bool InBackward() noexcept;
// The region of this thread that traces instead of computing, for the
// coverage; null when there is none.
TDUMP_TORCH_EXPORT const char* TracingRegion() noexcept;

}  // namespace tdump::collectors
