// Looks into DTensors for whatever records tensors (collectors/torch/local_parts.h). Attributes are
// read, and what torch prints of placements and mesh; no operator is called, nothing communicates.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

namespace tdump::collectors {

// Precondition: IsTensor(object).
bool IsSharded(PyObject* object);

void InstallLocalPartReader();

}  // namespace tdump::collectors
