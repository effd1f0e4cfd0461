// Step marks: tells the clock of backward passes and of operators, where `steps.boundary` counts
// steps by them. Nothing is registered otherwise.
#pragma once

#include "core/runtime.h"

namespace tdump::collectors {

// Once, when the collector starts, and before the one that records operators: the operator that
// begins a step belongs to it.
void StartStepMarks(Runtime* runtime);

}  // namespace tdump::collectors
