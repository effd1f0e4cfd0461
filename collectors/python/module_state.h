// What happens once at the outermost call of a module: the coverage learns which operators to
// expect, and parameters and buffers are recorded as they are before the forward.
#pragma once

#include "collectors/python/module_table.h"

namespace tdump::collectors {

// A dict among the attributes of a module ("_parameters"), borrowed; null when there is none. Needs
// the GIL, leaves no error set.
PyObject* DictOf(PyObject* module, const char* name);

// Needs the GIL. Parameters and buffers once in each pass; a tensor that several modules share,
// under its first name.
void OnOutermostCall(Runtime* runtime, ModuleRoot* root);

}  // namespace tdump::collectors
