// The side of Python of collectors/torch/scripted_calls.h: which module an object of TorchScript
// is. Everything here needs the GIL and leaves no Python error set.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>

namespace tdump::collectors {

// Whether calls inside script modules are to be seen; defines the operators when first asked.
bool StartScripted();
// A named module is the object of TorchScript at this address.
void NameScripted(PyObject* module, uintptr_t object);

}  // namespace tdump::collectors
