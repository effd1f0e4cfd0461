#include "collectors/python/module_table.h"

namespace tdump::collectors {
namespace {

// Callback of the weak reference; `self` is the module's address.
PyObject* OnDeath(PyObject* self, PyObject* weak) {
  ModuleTable::Get().Erase(static_cast<PyObject*>(PyLong_AsVoidPtr(self)));
  Py_RETURN_NONE;
}

PyMethodDef on_death = {"tdump_module_died", OnDeath, METH_O, nullptr};

}  // namespace

ModuleTable& ModuleTable::Get() {
  // Never destroyed: weak references may outlive static destructors.
  static ModuleTable* table = new ModuleTable;
  return *table;
}

ModuleEntry* ModuleTable::Add(PyObject* module) {
  if (ModuleEntry* entry = Find(module)) return entry;
  PyObject* address = PyLong_FromVoidPtr(module);
  PyObject* callback = address != nullptr ? PyCFunction_New(&on_death, address) : nullptr;
  PyObject* weak = callback != nullptr ? PyWeakref_NewRef(module, callback) : nullptr;
  Py_XDECREF(callback);
  Py_XDECREF(address);
  if (weak == nullptr) return nullptr;
  ModuleEntry& entry = entries_[module];
  entry.weak = weak;
  return &entry;
}

void ModuleTable::Erase(PyObject* module_address) {
  auto it = entries_.find(module_address);
  if (it == entries_.end()) return;
  PyObject* weak = it->second.weak;
  entries_.erase(it);
  Py_XDECREF(weak);
}

std::vector<PyObject*> ModuleTable::Watched() const {
  std::vector<PyObject*> watched;
  for (const auto& [module, entry] : entries_) {
    if (!entry.ignored && (entry.is_root || entry.outermost)) watched.push_back(module);
  }
  return watched;
}

std::vector<PyObject*> ModuleTable::OfClass(const PyTypeObject* cls) const {
  std::vector<PyObject*> found;
  for (const auto& [module, entry] : entries_) {
    if (Py_TYPE(module) == cls) found.push_back(module);
  }
  return found;
}

ModuleRoot* ModuleTable::RootOf(uint64_t number) {
  std::unique_ptr<ModuleRoot>& root = roots_[number];
  if (root == nullptr) {
    root = std::make_unique<ModuleRoot>();
    root->number = number;
  }
  return root.get();
}

}  // namespace tdump::collectors
