// tdump.log(stat=...): what a function of the job makes of a tensor is kept in place of its values.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

namespace tdump::collectors {

// `summarise(tensor)` gives a list of (name, tensor) and raises nothing (tdump/_log.py). None: no
// summaries from now on. Needs the GIL.
void SetSummary(PyObject* summarise);

}  // namespace tdump::collectors
