// Gradients of parameters of which each rank holds a part (DTensor).
//
// FSDP2 reduces a gradient into the parts past autograd: no node of the graph accumulates it, and a
// hook of C++ on the parameter is never called. What it calls then are the hooks that Python
// registered for that moment (Tensor.register_post_accumulate_grad_hook). One of them is tdump's,
// in front of the job's own; it records the local part, as it is now, with its placements, mesh and
// global shape.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string_view>

#include "core/types.h"

namespace tdump::collectors {

// Precondition: IsTensor(object).
bool IsSharded(PyObject* object);
// Whether FSDP2 shards parameters of the module. Others that are sharded are left to autograd:
// what stands among the hooks of Python is traced by compiled autograd, which refuses a DTensor.
bool IsOfFsdp(PyObject* module);

// From now on records the gradient of a parameter that IsSharded() whenever it was added to, as
// WatchParameterGradient() does of others. Again: nothing is done. Needs the GIL; leaves no error.
void WatchShardedGradient(OperatorId op, std::string_view name, PyObject* parameter);

}  // namespace tdump::collectors
