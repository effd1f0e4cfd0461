#include "collectors/python/optimizer_state.h"

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "collectors/python/error_guard.h"
#include "collectors/python/hooks.h"
#include "collectors/python/module_state.h"
#include "collectors/python/module_table.h"
#include "collectors/python/python_tensor.h"
#include "collectors/python/python_text.h"
#include "collectors/torch/optimizer_state.h"
#include "collectors/torch/plugin.h"

namespace tdump::collectors {
namespace {

constexpr int kMaxDepth = 4;  // of lists in a parameter's state

struct Owner {
  OperatorId op = kNoOperator;
  PyObject* name = nullptr;  // belongs to the module's dict
};

// Parameters by identity, one that several modules share under its first name.
std::unordered_map<PyObject*, Owner> NamedParameters() {
  std::unordered_map<PyObject*, Owner> owners;
  ModuleTable& table = ModuleTable::Get();
  for (const auto& [number, root] : table.roots()) {
    for (PyObject* module : root->members) {
      const ModuleEntry* entry = table.Find(module);
      if (entry == nullptr || entry->ignored || entry->op == kNoOperator) continue;
      PyObject* parameters = DictOf(module, "_parameters");
      PyObject *name, *tensor;
      Py_ssize_t position = 0;
      while (parameters != nullptr && PyDict_Next(parameters, &position, &name, &tensor)) {
        owners.try_emplace(tensor, Owner{entry->op, name});
      }
    }
  }
  return owners;
}

void RecordValue(OptimizerState* out, const std::string& name, PyObject* value, int depth) {
  if (IsTensor(value)) return out->Tensor(name, TensorOf(value));
  if (PyBool_Check(value) || value == Py_None) return;
  if (PyLong_Check(value)) {
    const long long number = PyLong_AsLongLong(value);
    if (number != -1 || PyErr_Occurred() == nullptr) return out->Integer(name, number);
    return PyErr_Clear();
  }
  if (PyFloat_Check(value)) return out->Real(name, PyFloat_AS_DOUBLE(value));
  if (!(PyList_Check(value) || PyTuple_Check(value)) || depth == kMaxDepth) return;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i)
    RecordValue(out, name + "." + std::to_string(i), PySequence_Fast_GET_ITEM(value, i), depth + 1);
}

void RecordStateOf(OptimizerState* out, PyObject* values) {
  std::string made;
  PyObject *name, *value;
  Py_ssize_t position = 0;
  while (PyDict_Next(values, &position, &name, &value)) {
    if (const auto text = Utf8Of(name, &made)) RecordValue(out, std::string(*text), value, 0);
  }
}

void RecordAll(OptimizerState* out, PyObject* states) {
  const std::unordered_map<PyObject*, Owner> owners = NamedParameters();
  std::string made;
  PyObject *parameter, *values;
  Py_ssize_t position = 0;
  while (PyDict_Next(states, &position, &parameter, &values)) {
    const auto owner = owners.find(parameter);
    if (owner == owners.end() || !PyDict_Check(values)) continue;
    const auto name = Utf8Of(owner->second.name, &made);
    if (name && out->Begin(owner->second.op, *name)) RecordStateOf(out, values);
  }
}

}  // namespace

void RecordOptimizerState(PyObject* optimizer) {
  Runtime* runtime = CurrentRuntime();
  if (Inert(runtime) || !runtime->gate->armed()) return;
  ErrorGuard guard;
  PyObject* states = PyObject_GetAttrString(optimizer, "state");
  try {
    OptimizerState out(runtime, optimizer);
    if (states != nullptr && PyDict_Check(states)) RecordAll(&out, states);
  } catch (...) {  // out of memory
  }
  Py_XDECREF(states);
  PyErr_Clear();
}

}  // namespace tdump::collectors
