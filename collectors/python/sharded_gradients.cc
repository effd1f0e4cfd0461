#include "collectors/python/sharded_gradients.h"

#include <memory>
#include <string_view>
#include <vector>

#include "collectors/python/error_guard.h"
#include "collectors/python/hooks.h"
#include "collectors/python/module_state.h"
#include "collectors/python/module_table.h"
#include "collectors/python/python_tensor.h"
#include "collectors/python/reference.h"
#include "collectors/torch/gradients.h"
#include "collectors/torch/plugin.h"

namespace tdump::collectors {
namespace {

constexpr const char* kKey = "tdump";  // among the parameter's hooks, whose other keys are numbers

ParameterGradient* Held(PyObject* capsule) {
  return static_cast<ParameterGradient*>(PyCapsule_GetPointer(capsule, kKey));
}

PyObject* OnGradient(PyObject* capsule, PyObject* parameter) {
  const Runtime* runtime = CurrentRuntime();
  if (Inert(runtime) || !runtime->gate->armed()) Py_RETURN_NONE;
  const ErrorGuard guard;
  try {
    const Reference gradient = AttributeOf(parameter, "grad");
    ParameterGradient* held = Held(capsule);
    if (held != nullptr && gradient != nullptr && IsTensor(gradient.get()))
      held->Record(TensorOf(gradient.get()));
  } catch (...) {  // out of memory
  }
  Py_RETURN_NONE;
}
PyMethodDef on_gradient = {kKey, OnGradient, METH_O, nullptr};

Reference NewHook(OperatorId op, std::string_view name) {
  auto held = std::make_unique<ParameterGradient>(op, name);
  const Reference capsule(PyCapsule_New(held.get(), kKey, [](PyObject* of) { delete Held(of); }));
  if (capsule == nullptr) return nullptr;
  (void)held.release();
  return Reference(PyCFunction_New(&on_gradient, capsule.get()));
}

// The dict of hooks, made where there is none. Null with an error set.
Reference HooksOf(PyObject* parameter) {
  constexpr const char* kHooks = "_post_accumulate_grad_hooks";
  Reference hooks(PyObject_GetAttrString(parameter, kHooks));
  if (hooks == nullptr || hooks.get() != Py_None) return hooks;
  hooks.reset(PyODict_New());
  if (hooks == nullptr || PyObject_SetAttrString(parameter, kHooks, hooks.get()) != 0)
    return nullptr;
  return hooks;
}

bool IsWatched(PyObject* hooks, OperatorId op, std::string_view name) {
  PyObject* hook = PyDict_Check(hooks) ? PyDict_GetItemString(hooks, kKey) : nullptr;
  if (hook == nullptr || !PyCFunction_Check(hook)) return false;
  const ParameterGradient* held = Held(PyCFunction_GetSelf(hook));
  return held != nullptr && held->IsOf(op, name);
}

bool IsOfFsdp(PyObject* module) {
  PyObject* bases = Py_TYPE(module)->tp_mro;
  for (Py_ssize_t i = 0; bases != nullptr && i < PyTuple_GET_SIZE(bases); ++i) {
    PyObject* base = PyTuple_GET_ITEM(bases, i);
    if (PyType_Check(base) &&
        std::string_view(reinterpret_cast<PyTypeObject*>(base)->tp_name) == "FSDPModule")
      return true;
  }
  return false;
}

}  // namespace

std::unordered_set<PyObject*> UnderFsdp(const std::vector<PyObject*>& modules) {
  std::vector<PyObject*> next;
  for (PyObject* module : modules) {
    if (ModuleTable::Get().Find(module) != nullptr && IsOfFsdp(module)) next.push_back(module);
  }
  std::unordered_set<PyObject*> found;
  while (!next.empty()) {
    PyObject* module = next.back();
    next.pop_back();
    if (!found.insert(module).second) continue;
    PyObject* parts = DictOf(module, "_modules");
    PyObject *name, *part;
    Py_ssize_t position = 0;
    while (parts != nullptr && PyDict_Next(parts, &position, &name, &part)) {
      if (part != Py_None) next.push_back(part);
    }
  }
  return found;
}

void WatchShardedGradient(OperatorId op, std::string_view name, PyObject* parameter) {
  const ErrorGuard guard;
  if (!RequiresGradient(parameter)) return;
  const Reference hooks = HooksOf(parameter);
  if (hooks == nullptr || IsWatched(hooks.get(), op, name)) return;
  const Reference key(PyUnicode_FromString(kKey)), hook = NewHook(op, name);
  if (key == nullptr || hook == nullptr) return;
  if (PyObject_SetItem(hooks.get(), key.get(), hook.get()) != 0) return;
  const Reference moved(PyObject_CallMethod(hooks.get(), "move_to_end", "OO", key.get(), Py_False));
}

}  // namespace tdump::collectors
