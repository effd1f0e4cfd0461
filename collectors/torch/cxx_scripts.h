// Script modules that a C++ program loads and calls: named here, as Python is not there to do it.
// Their inner calls are seen as those of Python (collectors/torch/scripted_calls.h); a call from
// the program is one of TorchScript's graph too, which opens it.
#pragma once

#include <cstdint>

#include "collectors/torch/export.h"

namespace tdump::collectors {

// Opens the call of a module that was named here, as ScriptedHost::begin does. May throw.
uint64_t BeginCxxScript(const void* object);

}  // namespace tdump::collectors

extern "C" {
// From the shim, before a method of TorchScript runs that a C++ program calls: `method` is a
// `const torch::jit::Method*`. The first module that is called so has no prefix, later ones have
// class and number, in the order of their first calls.
TDUMP_TORCH_EXPORT void tdump_torch_script_begin(const void* method);
}
