#include "collectors/python/python_tensor.h"

#include <torch/csrc/autograd/python_variable.h>

#include <string_view>

namespace tdump::collectors {

bool IsTensor(PyObject* object) { return THPVariable_Check(object); }

Reference ObjectOf(const at::TensorBase& tensor) {
  Reference object;
  try {
    object.reset(THPVariable_Wrap(tensor));
  } catch (...) {  // torch's errors of Python among them
  }
  if (object == nullptr) PyErr_Clear();
  return object;
}

const at::TensorBase& TensorOf(PyObject* object) { return THPVariable_Unpack(object); }

const char* SubclassOf(PyObject* tensor) {
  if (THPVariable_CheckExact(tensor)) return "";
  const std::string_view name = Py_TYPE(tensor)->tp_name;
  return name == "Parameter" || name == "Buffer" ? "" : Py_TYPE(tensor)->tp_name;
}

bool RequiresGradient(PyObject* object) { return THPVariable_Unpack(object).requires_grad(); }

std::span<const int64_t> SizesOf(PyObject* object) {
  const at::IntArrayRef sizes = THPVariable_Unpack(object).sizes();
  return {sizes.data(), sizes.size()};
}

}  // namespace tdump::collectors
