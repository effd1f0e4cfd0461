// The GIL, held in a scope, of a thread that may not be Python's.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "collectors/python/in_python.h"

namespace tdump::collectors {

class Gil {
 public:
  Gil() : state_(InPython([] { return PyGILState_Ensure(); })) {}
  ~Gil() { PyGILState_Release(state_); }
  Gil(const Gil&) = delete;

 private:
  PyGILState_STATE state_;
};

}  // namespace tdump::collectors
