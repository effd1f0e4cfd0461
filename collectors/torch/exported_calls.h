// Values that an exported program hands over. With `compile.taps: on` the hooks of Python, which
// torch.export runs, put an operator into the program (python/tdump/_exported.py), and AOTInductor
// into the package that it makes of it:
//
//   tdump::exported_call(Tensor[] values, str site) -> ()
//
// A package runs in other processes, so all there is to know is in the text:
//
//   1                   the version
//   whole|begin|end     of the call of the module
//   root prefix
//   path
//   class
//   leaf|node           without parts or with
//   root|part           the module that was exported, or one in it
//   aliases, with tabs between them
//   i|l|o ARG           for each value: a line: an input, one that is seen late, an output
//
// A call of the exported module is an open module call (module_calls.h). To the compilers the
// operator has an effect that is ordered. A package with it is opened only where it is defined: in
// a process that runs under tdump, whatever is recorded there.
#pragma once

#include "collectors/torch/export.h"

namespace tdump::collectors {

// Defines the operator, once. May throw, as torch does.
TDUMP_TORCH_EXPORT void DefineExportedOperators();

}  // namespace tdump::collectors
