// The side of Python of collectors/torch/traced_calls.h: which module a site of compiled code
// means, and what of a module's calls the rules can want. For tdump/_compiled.py; everything here
// needs the GIL and leaves no Python error set.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

namespace tdump::collectors {

// Whether compiled code is to hand its values over; defines the operators when first asked.
bool StartTraced();
// `name(cls)` names every module of a class that has no name yet. Kept for good.
void SetClassNamer(PyObject* name);
// The module of the innermost open call of this thread: a new reference, null for none.
PyObject* OpenModule();
// Named modules of the class of `module`, which share compiled code: a new list, null when memory
// is out.
PyObject* Twins(PyObject* module);
// Bits: 1 outputs, 2 their gradients, 4 inputs, 8 their gradients; 0 of a module without a name.
int WantedOf(PyObject* module);
// The same of a tap `name` in a module, or in none (None).
int WantedOfTap(PyObject* module, const char* name);
// (path, in_root, tap, tags, part, keeps, gradients, [(role, arg, late), ...]); -1 with an error
// set: other arguments.
long long AddSite(PyObject* arguments);
// For traced_root: the module, and the keys in `_modules` and at last in `_parameters` or
// `_buffers` of its witness ("0.mlp.weight", "" for none).
long long AddRoot(PyObject* module, const char* witness);

}  // namespace tdump::collectors
