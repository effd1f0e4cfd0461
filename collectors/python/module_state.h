// What happens once at the outermost call of a module: the coverage learns which operators to
// expect, and parameters and buffers are recorded as they are before the forward.
#pragma once

#include "collectors/python/module_table.h"

namespace tdump::collectors {

// Needs the GIL. Parameters and buffers once in each pass; a tensor that several modules share,
// under its first name.
void OnOutermostCall(Runtime* runtime, ModuleRoot* root);

}  // namespace tdump::collectors
