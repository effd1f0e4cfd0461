#include "collectors/python/summary.h"

#include <ATen/core/TensorBase.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <string>

#include "collectors/python/error_guard.h"
#include "collectors/python/gil.h"
#include "collectors/python/hooks.h"
#include "collectors/python/in_python.h"
#include "collectors/python/python_tensor.h"
#include "collectors/python/python_text.h"
#include "collectors/python/reference.h"
#include "collectors/torch/summary.h"

namespace tdump::collectors {
namespace {

PyObject* summary = nullptr;  // changes under the GIL

// Another tensor of the same data. What torch is about to make a Parameter or a subclass of must
// have no object of Python before.
Reference AliasOf(const at::TensorBase& tensor) {
  if (tensor.key_set().has(c10::DispatchKey::Python)) return ObjectOf(tensor);
  const c10::impl::ExcludeDispatchKeyGuard no_modes(c10::DispatchKey::Python);
  return ObjectOf(tensor.variable_data());
}

Reference SummaryOf(const at::TensorBase& tensor) {
  const Reference function(Py_XNewRef(summary));
  const Reference object = function != nullptr ? AliasOf(tensor) : nullptr;
  if (object == nullptr) return nullptr;
  const at::DisableRecordFunctionGuard no_operators;
  const UnseenModules no_modules;
  return Reference(InPython([&] { return PyObject_CallOneArg(function.get(), object.get()); }));
}

void Summarise(const at::TensorBase& tensor, UseSummary use, void* context) {
  if (!Py_IsInitialized()) return;
  const Gil gil;
  const ErrorGuard guard;
  const Reference parts = SummaryOf(tensor);
  DropError();
  if (parts == nullptr || !PyList_Check(parts.get())) return;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(parts.get()); ++i) {
    PyObject* part = PyList_GET_ITEM(parts.get(), i);
    if (!PyTuple_Check(part) || PyTuple_GET_SIZE(part) != 2) continue;
    PyObject* value = PyTuple_GET_ITEM(part, 1);
    std::string made;
    const auto name = Utf8Of(PyTuple_GET_ITEM(part, 0), &made);
    if (name && IsTensor(value)) use(context, *name, TensorOf(value));
  }
}

}  // namespace

void SetSummary(PyObject* summarise) {
  const Reference before(summary);
  summary = summarise == Py_None ? nullptr : Py_NewRef(summarise);
  SetSummariser(summary != nullptr ? Summarise : nullptr);
}

}  // namespace tdump::collectors
