// Calls of modules inside TorchScript, which runs a graph and no hooks. Before a script module runs
// for the first time its `forward` is given an executor of another graph: that of the module with,
// around the body of each `forward` that is inlined,
//
//   tdump::scripted_begin(self, arguments...)
//   tdump::scripted_end(self, result)
//
// `self` is the object of TorchScript: modules of one class share their code, and are told apart
// when it runs. To the compiler both have effects and may write what they are given, so they stay,
// in their place. The graph that the job sees, saves, freezes or inlines is left as it is.
//
//   tdump::scripted_value(Tensor(a) value) -> Tensor(a)
//       gives what it takes. Where a value that a module takes or gives is used before that as
//       well, it keeps the differentiator of TorchScript, of whose graphs only the outer gradients
//       are seen, from putting the value inside of one
#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>

#include "collectors/torch/export.h"

namespace tdump::collectors {

struct ScriptedHost {
  // Opens the call of the module that is this object of TorchScript; its serial number
  // (module_calls.h). 0: it has no name, or its call is open already. noexcept.
  uint64_t (*begin)(const void* object) = nullptr;
};

// Defines the operators, once (without a host: those of a process that Python is not in), and for
// Python
//   tdump::scripted_object(Any module) -> (int, str)
//       the address by which the functions here know the module, and the name of its class
// May throw, as torch does.
TDUMP_TORCH_EXPORT void DefineScriptedOperators(const ScriptedHost& host);

// Before a call of the module's `forward` by whatever is not TorchScript. `object`: an address that
// scripted_object() gave; nothing is done where the module is gone. noexcept: where it cannot be
// done the module runs as without tdump, and a note says so.
TDUMP_TORCH_EXPORT void PrepareScripted(const void* object) noexcept;
// The same of a module that is given.
void PrepareScriptedObject(const c10::intrusive_ptr<c10::ivalue::Object>& object) noexcept;

}  // namespace tdump::collectors
