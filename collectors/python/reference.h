// Reference: one that is owned, to an object of Python.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <memory>

namespace tdump::collectors {

struct Decrement {
  void operator()(PyObject* object) const { Py_DECREF(object); }
};
// Needs the GIL, to be dropped too.
using Reference = std::unique_ptr<PyObject, Decrement>;

// Null, and no error set, where there is no such attribute or no object.
inline Reference AttributeOf(PyObject* object, const char* name) {
  Reference value(object != nullptr ? PyObject_GetAttrString(object, name) : nullptr);
  if (value == nullptr) PyErr_Clear();
  return value;
}

}  // namespace tdump::collectors
