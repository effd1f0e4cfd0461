// ErrorGuard: a hook may run while a Python error is set, and may leave one itself.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

namespace tdump::collectors {

// Keeps the error that was set before, and drops what is set inside. Needs the GIL.
class ErrorGuard {
 public:
  ErrorGuard() { PyErr_Fetch(&type_, &value_, &trace_); }
  ~ErrorGuard() { PyErr_Restore(type_, value_, trace_); }
  ErrorGuard(const ErrorGuard&) = delete;

 private:
  PyObject *type_, *value_, *trace_;
};

}  // namespace tdump::collectors
