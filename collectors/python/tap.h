// Taps: tensors that a program names itself, tdump.tap(tensor, name, *tags).
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>

#include "collectors/torch/tap.h"

namespace tdump::collectors {

// Below the module call that is open, in the phase the thread is in; or below none, for a value or
// a gradient of a module: a value within a backward is computed again.
enum class TapPlace : uint8_t { kOpenModule, kValueOfModule, kGradientOfModule };

// Records what tensors `value` holds, as they are now, as the output, and their gradients as
// grad_output, of the operator `name` at `place`. `tags`, a tuple of str, go into the call's text.
// Needs the GIL. Leaves no Python error set.
void Tap(PyObject* value, PyObject* name, PyObject* tags, TapHalf half, TapPlace place);

}  // namespace tdump::collectors
