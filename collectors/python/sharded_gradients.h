// Gradients of parameters that FSDP2 shards.
//
// It reduces a gradient into the parts past autograd: no node of the graph accumulates it, and a
// hook of C++ on the parameter is never called. What it calls then are the hooks that Python
// registered for that moment (Tensor.register_post_accumulate_grad_hook). One of them is tdump's,
// in front of the job's own. Other parameters that are sharded are left to autograd and
// WatchParameterGradient(): what stands among the hooks of Python is traced by compiled autograd,
// which refuses a DTensor.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/types.h"

namespace tdump::collectors {

// Those of the modules that FSDP2 was given, and all that they contain. Needs the GIL.
std::unordered_set<PyObject*> UnderFsdp(const std::vector<PyObject*>& modules);

// From now on records the gradient of a parameter that IsSharded() whenever it was added to, as
// WatchParameterGradient() does of others. Again: nothing is done. Needs the GIL; leaves no error.
void WatchShardedGradient(OperatorId op, std::string_view name, PyObject* parameter);

}  // namespace tdump::collectors
