// What the hooks know of each nn.Module: its operator and its root. Filled by tdump/_naming.py,
// read on every call. Everything here needs the GIL.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "collectors/torch/pointer_set.h"
#include "collectors/torch/tied_tensors.h"
#include "core/recorder.h"
#include "core/runtime.h"

namespace tdump::collectors {

// A tree of modules with one owner at its top.
struct ModuleRoot {
  uint64_t number = 0;
  std::string prefix;                  // "" for the first root, else "Critic#1"
  std::vector<PyObject*> members;      // borrowed; one that died is no longer in the table
  bool stale = false;                  // modules were moved or added since it was named
  bool expected = false;               // the coverage knows which operators to expect
  uint64_t state_pass = ~uint64_t{0};  // pass in which parameters and buffers were recorded last
  TiedTensors recorded;                // of their tensors, in that pass
  PointerSet watched;
  Recorder::CallScope state_scope;  // its memory kept
};

struct ModuleEntry {
  PyObject* weak = nullptr;  // weak reference that removes the entry when the module dies
  OperatorId op = kNoOperator;
  ModuleRoot* root = nullptr;
  std::string told_as;  // name of an outermost call for the clock
  bool is_root = false;
  bool ignored = false;    // a wrapper: its calls are those of the module inside
  bool outermost = false;  // a call of it has been outermost
  // Of a script module whose inner calls are seen, its object of TorchScript.
  const void* script = nullptr;
};

// Modules by identity. Entries vanish with their modules, so an address that is reused is never
// taken for the old module.
class ModuleTable {
 public:
  static ModuleTable& Get();

  ModuleEntry* Find(PyObject* module) {
    auto it = entries_.find(module);
    return it == entries_.end() ? nullptr : &it->second;
  }
  // Null with a Python error set when the module cannot be referred to weakly.
  ModuleEntry* Add(PyObject* module);
  void Erase(PyObject* module_address);
  ModuleRoot* RootOf(uint64_t number);
  // Those whose calls may be told to the clock: roots, and what has been outermost. Borrowed.
  std::vector<PyObject*> Watched() const;
  // Those of exactly this class. Borrowed.
  std::vector<PyObject*> OfClass(const PyTypeObject* cls) const;
  const std::unordered_map<uint64_t, std::unique_ptr<ModuleRoot>>& roots() const { return roots_; }

 private:
  std::unordered_map<PyObject*, ModuleEntry> entries_;
  std::unordered_map<uint64_t, std::unique_ptr<ModuleRoot>> roots_;
};

}  // namespace tdump::collectors
