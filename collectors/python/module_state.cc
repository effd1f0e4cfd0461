#include "collectors/python/module_state.h"

#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "collectors/python/local_parts.h"
#include "collectors/python/python_tensor.h"
#include "collectors/python/python_text.h"
#include "collectors/python/sharded_gradients.h"
#include "collectors/torch/capture.h"
#include "collectors/torch/gradients.h"

namespace tdump::collectors {

PyObject* DictOf(PyObject* module, const char* name) {
  PyObject* attributes = PyObject_GenericGetDict(module, nullptr);
  if (attributes == nullptr) {
    PyErr_Clear();
    return nullptr;
  }
  PyObject* dict = PyDict_Check(attributes) ? PyDict_GetItemString(attributes, name) : nullptr;
  Py_DECREF(attributes);
  return dict != nullptr && PyDict_Check(dict) ? dict : nullptr;
}

namespace {

bool IsLazy(PyObject* module) {
  for (const char* name : {"_parameters", "_buffers"}) {
    PyObject* tensors = DictOf(module, name);
    PyObject *key, *tensor;
    Py_ssize_t position = 0;
    while (tensors != nullptr && PyDict_Next(tensors, &position, &key, &tensor)) {
      if (std::string_view(Py_TYPE(tensor)->tp_name).starts_with("Uninitialized")) return true;
    }
  }
  return false;
}

// Parameters and buffers of the modules of a root, each tensor once a pass.
class StateRecorder {
 public:
  StateRecorder(Runtime* runtime, ModuleRoot* root)
      : recorder_(*runtime->recorder), root_(*root), scope_(root->state_scope) {
    root_.recorded.Clear();
    root_.watched.Clear();
  }

  void Record(PyObject* module, OperatorId op) {
    if (IsLazy(module)) return;  // gets its shapes in its first forward; recorded in the next pass
    if (!recorder_.BeginState(op, module, &scope_)) return;
    if (Wants(recorder_, scope_, Role::kParam))
      RecordDict(DictOf(module, "_parameters"), Role::kParam);
    if (Wants(recorder_, scope_, Role::kState))
      RecordDict(DictOf(module, "_buffers"), Role::kState);
    if (WantsGradient(recorder_, scope_, Role::kParamGrad)) WatchGradients(module, op);
  }

 private:
  void RecordDict(PyObject* tensors, Role role) {
    if (tensors == nullptr) return;
    PyObject *name, *tensor;
    Py_ssize_t position = 0;
    while (PyDict_Next(tensors, &position, &name, &tensor)) {
      if (!PyUnicode_Check(name) || !IsTensor(tensor)) continue;
      const auto text = Utf8Of(name, &made_);
      if (text && root_.recorded.IsNew(recorder_, scope_, role, *text, TensorOf(tensor), tensor))
        Capture(recorder_, &scope_, {role, *text, false, SubclassOf(tensor)}, TensorOf(tensor));
    }
  }

  void WatchGradients(PyObject* module, OperatorId op) {
    PyObject* parameters = DictOf(module, "_parameters");
    PyObject *name, *tensor;
    Py_ssize_t position = 0;
    while (parameters != nullptr && PyDict_Next(parameters, &position, &name, &tensor)) {
      if (!PyUnicode_Check(name) || !IsTensor(tensor) || !root_.watched.Insert(tensor)) continue;
      const auto text = Utf8Of(name, &made_);
      if (!text) continue;
      if (IsSharded(tensor) && IsUnderFsdp(module))
        WatchShardedGradient(op, *text, tensor);
      else
        WatchParameterGradient(op, *text, TensorOf(tensor));
    }
  }

  bool IsUnderFsdp(PyObject* module) {
    if (!under_fsdp_) under_fsdp_ = UnderFsdp(root_.members);
    return under_fsdp_->contains(module);
  }

  Recorder& recorder_;
  ModuleRoot& root_;
  Recorder::CallScope& scope_;
  std::optional<std::unordered_set<PyObject*>> under_fsdp_;  // once asked for
  std::string made_;                                         // a name that had to be encoded
};

void Expect(Runtime* runtime, ModuleRoot* root) {
  ModuleTable& table = ModuleTable::Get();
  for (PyObject* module : root->members) {
    const ModuleEntry* entry = table.Find(module);
    if (entry == nullptr || entry->ignored || entry->op == kNoOperator) continue;
    Plan& plan = *runtime->plan;
    if (plan.expects_calls(plan.op(entry->op, runtime->operators->Get(entry->op), module)))
      runtime->sink->expect(entry->op);
  }
}

}  // namespace

void OnOutermostCall(Runtime* runtime, ModuleRoot* root) {
  if (runtime->gate->off()) return;
  if (!root->expected) {
    root->expected = true;
    Expect(runtime, root);
  }
  const uint64_t pass = runtime->gate->pass.load(std::memory_order_acquire);
  if (!runtime->gate->armed() || root->state_pass == pass) return;
  root->state_pass = pass;
  ModuleTable& table = ModuleTable::Get();
  StateRecorder states(runtime, root);
  for (PyObject* module : root->members) {
    const ModuleEntry* entry = table.Find(module);
    if (entry != nullptr && !entry->ignored) states.Record(module, entry->op);
  }
}

}  // namespace tdump::collectors
