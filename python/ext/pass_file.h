// PassFile: io::PassReader for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace tdump::python {

void BindPassFile(nanobind::module_& module);

}  // namespace tdump::python
