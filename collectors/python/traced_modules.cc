#include "collectors/python/traced_modules.h"

#include <ATen/core/Tensor.h>

#include <deque>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collectors/python/error_guard.h"
#include "collectors/python/gil.h"
#include "collectors/python/hooks.h"
#include "collectors/python/in_python.h"
#include "collectors/python/module_state.h"
#include "collectors/python/module_table.h"
#include "collectors/python/python_tensor.h"
#include "collectors/python/reference.h"
#include "collectors/torch/error_text.h"
#include "collectors/torch/module_calls.h"
#include "collectors/torch/plugin.h"
#include "collectors/torch/tap.h"
#include "collectors/torch/torch_state.h"
#include "collectors/torch/traced_calls.h"

namespace tdump::collectors {
namespace {

// Cuts "a" off "a.b.c".
std::string_view CutPart(std::string_view* path) {
  const size_t dot = path->find('.');
  const std::string_view part = path->substr(0, dot);
  *path = dot == std::string_view::npos ? "" : path->substr(dot + 1);
  return part;
}

// Borrowed, or null.
PyObject* Item(PyObject* module, const char* dict, std::string_view key) {
  PyObject* items = DictOf(module, dict);
  if (items == nullptr) return nullptr;
  const Reference name(
      PyUnicode_FromStringAndSize(key.data(), static_cast<Py_ssize_t>(key.size())));
  PyObject* item = name != nullptr ? PyDict_GetItemWithError(items, name.get()) : nullptr;
  PyErr_Clear();
  return item;
}

// The part of a module by its keys in `_modules`. Borrowed; null: there is none.
PyObject* PartOf(PyObject* module, std::string_view path) {
  while (module != nullptr && !path.empty()) module = Item(module, "_modules", CutPart(&path));
  return module;
}

bool IsKnown(const ModuleEntry* entry) {
  return entry != nullptr && !entry->ignored && entry->op != kNoOperator && entry->root != nullptr;
}

OperatorId Find(const void* open, const std::string& path, const void** module) {
  if (!Py_IsInitialized()) return kNoOperator;
  const Gil gil;
  const ErrorGuard guard;
  auto* above = static_cast<PyObject*>(const_cast<void*>(open));
  if (ModuleTable::Get().Find(above) == nullptr) return kNoOperator;  // a module of C++
  PyObject* part = PartOf(above, path);
  const ModuleEntry* entry = part != nullptr ? ModuleTable::Get().Find(part) : nullptr;
  *module = part;
  return IsKnown(entry) ? entry->op : kNoOperator;
}

// ---- calls that begin in compiled code ----

// A module whose call no other encloses, as it was when its graph was made. Another one of its
// class may run the same code: the graph hands over a parameter of the one that does.
struct TracedRootSite {
  Reference module;  // weak
  PyTypeObject* cls = nullptr;
  std::string witness_owner, witness_name;
  std::unordered_map<const at::TensorImpl*, Reference> found;  // weak; by witness
};

std::deque<TracedRootSite>& Roots() {
  static auto* roots = new std::deque<TracedRootSite>;  // by the GIL; Python may be gone at exit
  return *roots;
}

bool Owns(PyObject* module, const TracedRootSite& site, const at::Tensor& witness) {
  PyObject* owner = PartOf(module, site.witness_owner);
  if (owner == nullptr) return false;
  PyObject* parameter = Item(owner, "_parameters", site.witness_name);
  if (parameter == nullptr) parameter = Item(owner, "_buffers", site.witness_name);
  return parameter != nullptr && IsTensor(parameter) &&
         TensorOf(parameter).unsafeGetTensorImpl() == witness.unsafeGetTensorImpl();
}

// Borrowed, or null.
PyObject* AmongNamed(const TracedRootSite& site, const at::Tensor& witness) {
  for (PyObject* module : ModuleTable::Get().OfClass(site.cls)) {
    if (Owns(module, site, witness)) return module;
  }
  return nullptr;
}

PyObject* name_class = nullptr;

// A module has its name since its first call in eager code, which may not have been.
PyObject* AmongAll(const TracedRootSite& site, const at::Tensor& witness) {
  constexpr int kMostSearches = 256;  // of modules that are not there
  static int searches = 0;
  if (name_class == nullptr || searches == kMostSearches) return nullptr;
  auto* cls = reinterpret_cast<PyObject*>(site.cls);
  Py_XDECREF(InPython([&] { return PyObject_CallOneArg(name_class, cls); }));
  PyErr_Clear();
  PyObject* module = AmongNamed(site, witness);
  if (module == nullptr) ++searches;
  return module;
}

// What a weak reference refers to. Borrowed, or null.
PyObject* Referent(const Reference& weak) {
  PyObject* object = weak != nullptr ? PyWeakref_GetObject(weak.get()) : Py_None;
  return object != Py_None ? object : nullptr;
}

// Borrowed, or null.
PyObject* ModuleAt(TracedRootSite* site, std::span<const at::Tensor> witness) {
  PyObject* made_for = Referent(site->module);
  // Without anything of its own it is one of its class, as any other.
  if (witness.empty())
    return ModuleTable::Get().OfClass(site->cls).size() == 1 ? made_for : nullptr;
  if (made_for != nullptr && Owns(made_for, *site, witness[0])) return made_for;
  constexpr size_t kMostFound = 4096;
  if (site->found.size() >= kMostFound) site->found.clear();
  Reference& known = site->found[witness[0].unsafeGetTensorImpl()];
  PyObject* module = Referent(known);
  if (module != nullptr && Owns(module, *site, witness[0])) return module;
  module = AmongNamed(*site, witness[0]);
  if (module == nullptr) module = AmongAll(*site, witness[0]);
  known.reset(module != nullptr ? PyWeakref_NewRef(module, nullptr) : nullptr);
  PyErr_Clear();
  return module;
}

uint64_t BeginCallOf(Runtime* runtime, TracedRootSite* site, std::span<const at::Tensor> witness) {
  ModuleCalls& calls = ModuleCalls::OfThread();
  const int64_t depth = InterpreterDepth();
  if (!calls.empty()) calls.DropStale(runtime, depth);
  // Within another call nothing depends on it, unless something is recorded.
  if (!calls.empty() && !runtime->gate->armed()) return 0;
  PyObject* module = ModuleAt(site, witness);
  ModuleEntry* entry = module != nullptr ? ModuleTable::Get().Find(module) : nullptr;
  if (!IsKnown(entry)) {
    runtime->sink->note(
        "torch.compile: a module that reuses the code compiled for another one cannot be told from "
        "it; not captured. Call it in eager code, or compile it by itself");
    return 0;
  }
  ModuleFrame* frame = BeginCall(runtime, IdentityOf(runtime, module, *entry), depth, /*frames=*/1);
  if (frame == nullptr) return 0;
  BalanceDepth(calls.size());
  if (frame->announced) OnOutermostCall(runtime, entry->root);
  return frame->serial;
}

uint64_t BeginRoot(std::span<const at::Tensor> witness, int64_t site) try {
  if (!Py_IsInitialized()) return 0;
  const Gil gil;
  const ErrorGuard guard;
  Runtime* runtime = CurrentRuntime();
  const bool known = site >= 0 && static_cast<size_t>(site) < Roots().size();
  return known && !Inert(runtime) ? BeginCallOf(runtime, &Roots()[site], witness) : 0;
} catch (...) {  // out of memory
  return 0;
}

void EndRoot(uint64_t serial) {
  if (!Py_IsInitialized()) return;
  const Gil gil;
  const ErrorGuard guard;
  Runtime* runtime = CurrentRuntime();
  ModuleCalls& calls = ModuleCalls::OfThread();
  const ModuleFrame* frame = calls.WithSerial(serial);
  if (frame == nullptr || runtime == nullptr) return;
  calls.UnwindTo(runtime, frame);
  calls.Pop(runtime, /*threw=*/false);
  BalanceDepth(calls.size());
}

// What the rules can want of an operator, as traced_wants() tells it.
int BitsOf(Runtime* runtime, OperatorId op, const void* module) {
  Plan& plan = *runtime->plan;
  const RuleId rule = plan.op(op, runtime->operators->Get(op), module);
  if (rule == kNoRule) return 0;
  return (plan.wants(rule, Role::kOutput, Phase::kForward) ? 1 : 0) |
         (plan.wants(rule, Role::kGradOutput, Phase::kBackward) ? 2 : 0) |
         (plan.wants(rule, Role::kInput, Phase::kForward) ? 4 : 0) |
         (plan.wants(rule, Role::kGradInput, Phase::kBackward) ? 8 : 0);
}

}  // namespace

void SetClassNamer(PyObject* name) { Py_XSETREF(name_class, Py_NewRef(name)); }

bool StartTraced() {
  Runtime* runtime = CurrentRuntime();
  if (Inert(runtime) || !runtime->collect_modules || !runtime->collect_compiled) return false;
  Activate(runtime);
  if (Inert(runtime)) return false;
  try {
    DefineTracedOperators({.find = Find, .begin_root = BeginRoot, .end_root = EndRoot});
    return true;
  } catch (const std::exception& error) {
    runtime->sink->note("torch.compile: " + WhatOf(error) + "; not captured");
    return false;
  }
}

PyObject* OpenModule() {
  const ModuleFrame* frame = ModuleCalls::OfThread().top();
  if (frame == nullptr || frame->silent) return nullptr;
  auto* module = static_cast<PyObject*>(const_cast<void*>(frame->module));
  return ModuleTable::Get().Find(module) != nullptr ? Py_NewRef(module) : nullptr;
}

PyObject* Twins(PyObject* module) {
  PyObject* twins = PyList_New(0);
  for (PyObject* twin : ModuleTable::Get().OfClass(Py_TYPE(module))) {
    if (twins != nullptr && PyList_Append(twins, twin) != 0) Py_CLEAR(twins);
  }
  return twins;
}

int WantedOf(PyObject* module) {
  Runtime* runtime = CurrentRuntime();
  const ModuleEntry* entry = ModuleTable::Get().Find(module);
  return Inert(runtime) || !IsKnown(entry) ? 0 : BitsOf(runtime, entry->op, module);
}

int WantedOfTap(PyObject* module, const char* name) {
  Runtime* runtime = CurrentRuntime();
  if (Inert(runtime) || !runtime->collect_taps) return 0;
  const ModuleEntry* entry = ModuleTable::Get().Find(module);
  const OperatorId owner = IsKnown(entry) ? entry->op : kNoOperator;
  return BitsOf(runtime, TapOperator(runtime, owner, name), nullptr);
}

long long AddSite(PyObject* arguments) {
  const char *path, *tap;
  int in_root, part, keeps, gradients;
  PyObject *tags, *values;
  if (!PyArg_ParseTuple(arguments, "zpzO!ippO!", &path, &in_root, &tap, &PyTuple_Type, &tags, &part,
                        &keeps, &gradients, &PyList_Type, &values))
    return -1;
  TracedSite site;
  if (path != nullptr) site.path = path;
  site.in_root = in_root != 0;
  if (tap != nullptr) site.tap = tap;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tags); ++i) {
    const char* tag = PyUnicode_AsUTF8(PyTuple_GET_ITEM(tags, i));
    if (tag == nullptr) return -1;
    site.tags.push_back(tag);
  }
  site.part = static_cast<TracedSite::Part>(part);
  site.keeps = keeps != 0;
  site.gradients = gradients != 0;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(values); ++i) {
    int is_input, late;
    const char* arg;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(values, i), "psp", &is_input, &arg, &late)) return -1;
    site.values.push_back({is_input != 0 ? Role::kInput : Role::kOutput, arg, late != 0});
  }
  return AddTracedSite(std::move(site));
}

long long AddRoot(PyObject* module, const char* witness) {
  TracedRootSite site;
  site.module = Reference(PyWeakref_NewRef(module, nullptr));
  if (site.module == nullptr) return -1;
  site.cls = Py_TYPE(module);
  Py_INCREF(site.cls);
  const std::string_view path = witness;
  const size_t dot = path.rfind('.');
  if (dot != std::string_view::npos) site.witness_owner = path.substr(0, dot);
  site.witness_name = dot == std::string_view::npos ? path : path.substr(dot + 1);
  Roots().push_back(std::move(site));
  return static_cast<long long>(Roots().size()) - 1;
}

}  // namespace tdump::collectors
