// Reads what a torch.optim.Optimizer keeps of the parameters of named modules.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

namespace tdump::collectors {

// Right after a step of `optimizer`. Reads its `state` only. Needs the GIL; leaves no Python error
// set.
void RecordOptimizerState(PyObject* optimizer);

}  // namespace tdump::collectors
