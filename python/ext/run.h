// A whole run for Python: processes, passes and their step numbers.
#pragma once

#include <nanobind/nanobind.h>

namespace tdump::python {

void BindRun(nanobind::module_& module);

}  // namespace tdump::python
