// Taps: tensors that a program names itself, tdump.tap(tensor, name, *tags).
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>

#include "collectors/torch/tap.h"

namespace tdump::collectors {

enum class TapOwner : uint8_t { kOpenModule, kNone };

// Records what tensors `value` holds, as they are now, as the output, and their gradients as
// grad_output, of the operator `name` below the module call that is open on this thread. `tags`, a
// tuple of str, go into the call's text. Needs the GIL. Leaves no Python error set.
void Tap(PyObject* value, PyObject* name, PyObject* tags, TapHalf half, TapOwner owner);

}  // namespace tdump::collectors
