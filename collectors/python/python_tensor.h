// The border to libtorch_python, whose headers are slow to compile:
// from a Python object to its tensor.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>
#include <span>

#include "collectors/python/reference.h"

namespace at {
class TensorBase;
}

namespace tdump::collectors {

bool IsTensor(PyObject* object);
// The object of a tensor, made where it has none. Null when that fails, with no error set.
Reference ObjectOf(const at::TensorBase& tensor);
// Precondition: IsTensor(object). Valid while the object is.
const at::TensorBase& TensorOf(PyObject* object);
// The Python class of a tensor, "" for torch.Tensor, Parameter and Buffer.
const char* SubclassOf(PyObject* tensor);
// Of a leaf or not. Precondition: IsTensor(object).
bool RequiresGradient(PyObject* object);
// Precondition: IsTensor(object), which has no symbolic sizes. Valid while the object is.
std::span<const int64_t> SizesOf(PyObject* object);

}  // namespace tdump::collectors
