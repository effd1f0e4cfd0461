// Step marks: tells the clock of backward passes and of operators, where `steps.boundary` counts
// steps by them, and of a backward that an exception left. Nothing is registered otherwise.
#pragma once

#include "collectors/torch/export.h"
#include "core/runtime.h"

namespace tdump::collectors {

// Once, when the collector starts, and before the one that records operators: the operator that
// begins a step belongs to it.
void StartStepMarks(Runtime* runtime);

}  // namespace tdump::collectors

// What the shim tells (launch/shim/backward.cc): an exception leaves the engine of autograd.
extern "C" TDUMP_TORCH_EXPORT void tdump_torch_backward_left() noexcept;
