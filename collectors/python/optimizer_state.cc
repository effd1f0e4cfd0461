#include "collectors/python/optimizer_state.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collectors/python/error_guard.h"
#include "collectors/python/hooks.h"
#include "collectors/python/module_state.h"
#include "collectors/python/module_table.h"
#include "collectors/python/python_tensor.h"
#include "collectors/python/python_text.h"
#include "collectors/python/reference.h"
#include "collectors/torch/optimizer_state.h"
#include "collectors/torch/plugin.h"
#include "core/index_text.h"

namespace tdump::collectors {
namespace {

constexpr size_t kMostDepth = 32;            // of containers in a parameter's state
constexpr size_t kMostContainers = 100'000;  // of a parameter

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

std::string Digits(uint64_t number) {
  char digits[IndexText::kMaxBytes];
  return {digits, IndexText::Copy(number, digits)};
}

// What an optimizer keeps of one parameter: tensors and numbers, in dicts, lists and tuples.
class StateWalk {
 public:
  explicit StateWalk(OptimizerState* out) : out_(out) {}

  void All(PyObject* values) {
    around_.push_back(values);
    Dict("", values);
  }
  // False where something was left out: too many containers, or nested too deep.
  bool whole() const { return whole_; }

 private:
  void Dict(const std::string& stem, PyObject* values) {
    std::string made;
    PyObject *key, *value;
    Py_ssize_t position = 0;
    for (size_t i = 0; PyDict_Next(values, &position, &key, &value); ++i)
      Value(stem + NameOf(key, i, &made), value);
  }

  static std::string NameOf(PyObject* key, size_t i, std::string* made) {
    if (PyLong_CheckExact(key)) {
      int overflow = 0;
      const long long number = PyLong_AsLongLongAndOverflow(key, &overflow);
      if (overflow == 0)
        return number < 0 ? "-" + Digits(0 - static_cast<uint64_t>(number))
                          : Digits(static_cast<uint64_t>(number));
    }
    const auto text = Utf8Of(key, made);
    return text ? std::string(*text) : "key" + Digits(i);
  }

  void Value(const std::string& name, PyObject* value) {
    if (IsTensor(value)) return out_->Tensor(name, TensorOf(value));
    if (PyBool_Check(value) || value == Py_None) return;
    if (PyLong_Check(value)) return Integer(name, value);
    if (PyFloat_Check(value)) return out_->Real(name, PyFloat_AS_DOUBLE(value));
    const bool is_list = PyList_Check(value) || PyTuple_Check(value);
    if (!is_list && !PyDict_Check(value)) return;
    // One may hold itself.
    if (std::find(around_.begin(), around_.end(), value) != around_.end()) return;
    if (around_.size() == kMostDepth || containers_++ == kMostContainers) whole_ = false;
    if (around_.size() == kMostDepth || containers_ > kMostContainers) return;
    around_.push_back(value);
    const Reference hold(Py_NewRef(value));
    if (is_list)
      List(name + ".", value);
    else
      Dict(name + ".", value);
    around_.pop_back();
  }

  void List(const std::string& stem, PyObject* values) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(values); ++i)
      Value(stem + Digits(static_cast<uint64_t>(i)), PySequence_Fast_GET_ITEM(values, i));
  }

  void Integer(const std::string& name, PyObject* value) {
    const long long number = PyLong_AsLongLong(value);
    if (number != -1 || PyErr_Occurred() == nullptr) return out_->Integer(name, number);
    PyErr_Clear();  // more than 64 bits: no tensor has such
  }

  OptimizerState* out_;
  std::vector<PyObject*> around_;
  size_t containers_ = 0;
  bool whole_ = true;
};

// ---- parameters that no module has, as master copies in a wider dtype ----

// "torch.optim.adam.Adam".
std::string ClassOf(PyTypeObject* type) {
  std::string made, name = type->tp_name;
  PyObject* module = PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__module__");
  if (const auto text = module != nullptr ? Utf8Of(module, &made) : std::nullopt)
    name = std::string(*text) + "." + name.substr(name.rfind('.') + 1);
  Py_XDECREF(module);
  PyErr_Clear();
  return name;
}

// The operator that stands for the module that is none: "Adam", of a second one "Adam#1", in the
// order in which they stepped first. The GIL guards it.
OperatorId OperatorOf(Runtime* runtime, PyObject* optimizer) {
  struct Known {
    Reference weak;  // another may lie where one was
    OperatorId op = kNoOperator;
  };
  static auto* known = new std::unordered_map<PyObject*, Known>;
  static auto* of_name = new std::unordered_map<std::string, uint64_t>;
  Known& one = (*known)[optimizer];
  if (one.weak != nullptr && PyWeakref_GetObject(one.weak.get()) == optimizer) return one.op;
  OperatorInfo info;
  info.cls = ClassOf(Py_TYPE(optimizer));
  info.path = info.cls.substr(info.cls.rfind('.') + 1);
  info.leaf = true;
  if (const uint64_t before = (*of_name)[info.path]++; before > 0)
    info.path += "#" + Digits(before);
  one.weak.reset(PyWeakref_NewRef(optimizer, nullptr));
  PyErr_Clear();
  one.op = runtime->operators->Intern(info);
  return one.op;
}

// "0.2": the third of the first group.
std::unordered_map<PyObject*, std::string> PlacesInGroups(PyObject* optimizer) {
  std::unordered_map<PyObject*, std::string> places;
  PyObject* groups = PyObject_GetAttrString(optimizer, "param_groups");
  for (Py_ssize_t g = 0; groups != nullptr && PyList_Check(groups) && g < PyList_GET_SIZE(groups);
       ++g) {
    PyObject* group = PyList_GET_ITEM(groups, g);
    PyObject* list = PyDict_Check(group) ? PyDict_GetItemString(group, "params") : nullptr;
    for (Py_ssize_t i = 0; list != nullptr && PyList_Check(list) && i < PyList_GET_SIZE(list); ++i)
      places.try_emplace(PyList_GET_ITEM(list, i),
                         Digits(static_cast<uint64_t>(g)) + "." + Digits(static_cast<uint64_t>(i)));
  }
  Py_XDECREF(groups);
  PyErr_Clear();
  return places;
}

class OptimizerWalk {
 public:
  OptimizerWalk(Runtime* runtime, PyObject* optimizer)
      : runtime_(runtime),
        optimizer_(optimizer),
        out_(runtime, optimizer),
        owners_(NamedParameters()) {}

  void RecordAll(PyObject* states) {
    if (!AllHaveModules(states)) places_ = PlacesInGroups(optimizer_);  // may run code of the job
    std::string made;
    PyObject *parameter, *values;
    Py_ssize_t position = 0;
    while (PyDict_Next(states, &position, &parameter, &values)) {
      if (!PyDict_Check(values)) continue;
      const Reference hold_parameter(Py_NewRef(parameter)), hold_values(Py_NewRef(values));
      const auto owner = owners_.find(parameter);
      if (owner == owners_.end())
        RecordAlone(parameter, values);
      else if (const auto name = Utf8Of(owner->second.name, &made))
        Record(owner->second.op, *name, values);
    }
  }

 private:
  bool AllHaveModules(PyObject* states) const {
    PyObject *parameter, *values;
    Py_ssize_t position = 0;
    while (PyDict_Next(states, &position, &parameter, &values)) {
      if (!owners_.contains(parameter)) return false;
    }
    return true;
  }

  // A text instead of a parameter is what some keep of all of them.
  void RecordAlone(PyObject* parameter, PyObject* values) {
    const auto place = places_.find(parameter);
    std::string made;
    std::optional<std::string_view> name;
    if (place != places_.end())
      name = place->second;
    else if (!IsTensor(parameter))
      name = Utf8Of(parameter, &made);
    if (name) Record(OperatorOf(runtime_, optimizer_), *name, values);
  }

  void Record(OperatorId op, std::string_view name, PyObject* values) {
    if (!out_.Begin(op, name)) return;
    StateWalk walk(&out_);
    walk.All(values);
    if (!walk.whole())
      runtime_->sink->note(
          "what an optimizer keeps of a parameter was left out in part: more than 100,000 lists "
          "and dicts, or nested more than 32 deep");
  }

  Runtime* runtime_;
  PyObject* optimizer_;
  OptimizerState out_;
  const std::unordered_map<PyObject*, Owner> owners_;
  std::unordered_map<PyObject*, std::string> places_;  // where some have no module
};

}  // namespace

void RecordOptimizerState(PyObject* optimizer) {
  Runtime* runtime = CurrentRuntime();
  if (Inert(runtime) || !runtime->gate->armed()) return;
  ErrorGuard guard;
  PyObject* states = PyObject_GetAttrString(optimizer, "state");
  try {
    if (states != nullptr && PyDict_Check(states))
      OptimizerWalk(runtime, optimizer).RecordAll(states);
  } catch (...) {  // out of memory
  }
  Py_XDECREF(states);
  PyErr_Clear();
}

}  // namespace tdump::collectors
