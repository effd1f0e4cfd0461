// tdump._io: the reading half of tdump for Python. Internal:
// python/tdump/reader.py is what users see.
#include <nanobind/nanobind.h>

#include "python/ext/errors.h"
#include "python/ext/pass_file.h"
#include "python/ext/payload.h"
#include "python/ext/run.h"

NB_MODULE(_io, module) {
  nanobind::set_leak_warnings(false);  // of objects that live until the interpreter's end
  tdump::python::RegisterErrors(module);
  tdump::python::BindPayload(module);
  tdump::python::BindPassFile(module);
  tdump::python::BindRun(module);
}
