// The `aten` collector: operators seen through at::RecordFunction.
//
// What is recorded is the outermost operator of the dispatcher that has no
// CompositeImplicitAutograd kernel: for a linear layer the addmm, not aten::linear above it and not
// the copies below it; the level a TorchDispatchMode sees. It belongs to the innermost open module
// (`path/aten::addmm`), in backward to the module of its forward. Left out: collectives that are
// not asked for, tensors of transforms and of Python (their inner operators are seen), what
// compiled code runs.
#pragma once

#include "collectors/torch/export.h"
#include "core/runtime.h"

namespace tdump::collectors {

// Registers the callbacks, switched off, where the configuration asks for
// operators. Once, when the collector starts.
void StartAtenCollector(Runtime* runtime);
// Switches the callbacks on while a pass is armed or nothing has activated tdump yet, off otherwise
// (a disabled callback costs nothing). Called after every boundary.
TDUMP_TORCH_EXPORT void FollowGate(Runtime* runtime) noexcept;

}  // namespace tdump::collectors
