#include "collectors/python/sharded_gradients.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collectors/python/error_guard.h"
#include "collectors/python/hooks.h"
#include "collectors/python/python_tensor.h"
#include "collectors/torch/capture.h"
#include "collectors/torch/gradients.h"
#include "collectors/torch/plugin.h"

namespace tdump::collectors {
namespace {

constexpr const char* kKey = "tdump";  // among the parameter's hooks, whose other keys are numbers

struct Decrement {
  void operator()(PyObject* object) const { Py_DECREF(object); }
};
using Reference = std::unique_ptr<PyObject, Decrement>;

Reference Attribute(PyObject* object, const char* name) {
  Reference value(object != nullptr ? PyObject_GetAttrString(object, name) : nullptr);
  if (value == nullptr) PyErr_Clear();
  return value;
}

std::string TextOf(PyObject* object) {
  const Reference text(object != nullptr ? PyObject_Str(object) : nullptr);
  const char* utf8 = text != nullptr ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (utf8 == nullptr) PyErr_Clear();
  return utf8 != nullptr ? utf8 : "";
}

class ShardedGradient {
 public:
  ShardedGradient(OperatorId op, std::string_view name) : gradient_(op, name) {}

  bool IsOf(OperatorId op, std::string_view name) const { return gradient_.IsOf(op, name); }
  void Record(PyObject* whole) {
    const Reference local = Attribute(whole, "_local_tensor");
    if (local == nullptr || !IsTensor(local.get())) return;
    Describe(whole);
    const ShardOf shard{placements_, mesh_, shape_};
    gradient_.Record(TensorOf(local.get()), &shard);
  }

 private:
  // The texts stay as long as torch's own description is the same object.
  void Describe(PyObject* whole) {
    Reference spec = Attribute(whole, "_spec");
    if (spec != nullptr && spec.get() == spec_.get()) return;
    placements_ = TextOf(Attribute(whole, "placements").get());
    mesh_ = TextOf(Attribute(whole, "device_mesh").get());
    const auto sizes = SizesOf(whole);
    shape_.assign(sizes.begin(), sizes.end());
    spec_ = std::move(spec);
  }

  ParameterGradient gradient_;
  Reference spec_;
  std::string placements_, mesh_;
  std::vector<int64_t> shape_;
};

ShardedGradient* Held(PyObject* capsule) {
  return static_cast<ShardedGradient*>(PyCapsule_GetPointer(capsule, kKey));
}

PyObject* OnGradient(PyObject* capsule, PyObject* parameter) {
  const Runtime* runtime = CurrentRuntime();
  if (Inert(runtime) || !runtime->gate->armed()) Py_RETURN_NONE;
  const ErrorGuard guard;
  try {
    const Reference gradient = Attribute(parameter, "grad");
    ShardedGradient* held = Held(capsule);
    if (held != nullptr && gradient != nullptr && gradient.get() != Py_None)
      held->Record(gradient.get());
  } catch (...) {  // out of memory
  }
  Py_RETURN_NONE;
}
PyMethodDef on_gradient = {kKey, OnGradient, METH_O, nullptr};

Reference NewHook(OperatorId op, std::string_view name) {
  auto held = std::make_unique<ShardedGradient>(op, name);
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
  const ShardedGradient* held = Held(PyCFunction_GetSelf(hook));
  return held != nullptr && held->IsOf(op, name);
}

}  // namespace

bool IsSharded(PyObject* object) { return SubclassOf(object) == kDTensorClass; }

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
