// tdump._torch: the C side of tdump/_hooks.py and tdump/_naming.py. Every function is quiet: where
// tdump is not running in this process it does nothing.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <optional>
#include <string>
#include <string_view>

#include "collectors/python/hooks.h"
#include "collectors/python/local_parts.h"
#include "collectors/python/module_table.h"
#include "collectors/python/optimizer_state.h"
#include "collectors/python/python_text.h"
#include "collectors/python/resting_hooks.h"
#include "collectors/python/scripted_modules.h"
#include "collectors/python/summary.h"
#include "collectors/python/tap.h"
#include "collectors/python/traced_modules.h"
#include "collectors/torch/module_calls.h"
#include "collectors/torch/plugin.h"
#include "collectors/torch/torch_state.h"

namespace tdump::collectors {
namespace {

PyObject* Running(PyObject*, PyObject*) {
  const Runtime* runtime = CurrentRuntime();
  return PyBool_FromLong(runtime != nullptr && !runtime->gate->off());
}

// start(resolve, evaluate)
PyObject* Start(PyObject*, PyObject* args) {
  PyObject *resolve, *evaluate;
  if (!PyArg_ParseTuple(args, "OO", &resolve, &evaluate)) return nullptr;
  Runtime* runtime = CurrentRuntime();
  if (runtime == nullptr) Py_RETURN_FALSE;
  SetResolver(resolve);
  SetPredicateHost(runtime, evaluate);
  InstallLocalPartReader();
  Py_RETURN_TRUE;
}

PyObject* Pre(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count == 2) BeforeForward(args[0], args[1]);
  if (RaiseInterrupt()) return nullptr;
  Py_RETURN_NONE;
}

PyObject* Post(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count == 3) AfterForward(args[0], args[1], args[2]);
  if (RaiseInterrupt()) return nullptr;
  Py_RETURN_NONE;
}

PyObject* Failed(PyObject*, PyObject* module) {
  AfterFailedForward(module);
  Py_RETURN_NONE;
}

// hook_switch(rest, stand)
PyObject* HookSwitch(PyObject*, PyObject* args) {
  PyObject *rest, *stand;
  if (!PyArg_ParseTuple(args, "OO", &rest, &stand)) return nullptr;
  SetHookSwitch(rest, stand);
  Py_RETURN_NONE;
}

PyObject* Enter(PyObject*, PyObject* module) {
  return PyLong_FromUnsignedLongLong(EnterWatched(module));
}

PyObject* Leave(PyObject*, PyObject* serial) {
  if (serial == Py_None) Py_RETURN_NONE;  // what Enter() gave when memory was out
  const unsigned long long number = PyLong_AsUnsignedLongLong(serial);
  if (PyErr_Occurred() != nullptr) return nullptr;
  LeaveWatched(number);
  Py_RETURN_NONE;
}

PyObject* Stand(PyObject*, PyObject*) {
  StandHooks();
  Py_RETURN_NONE;
}

PyObject* Keep(PyObject*, PyObject*) {
  KeepHooks();
  Py_RETURN_NONE;
}

PyObject* Known(PyObject*, PyObject* module) {
  return PyBool_FromLong(ModuleTable::Get().Find(module) != nullptr);
}

// "" of what is no str.
std::string TextOf(PyObject* object) {
  std::string made;
  return std::string(Utf8Of(object, &made).value_or(""));
}

// What was recorded of a module that was named before its owner was known belongs to the new name
// too. One that was moved within its tree had a right name each time.
void Name(Runtime* runtime, const OperatorInfo& info, ModuleEntry* entry) {
  const OperatorId before = entry->op;
  entry->op = runtime->operators->Intern(info);
  entry->ignored = entry->op == kNoOperator;
  entry->told_as = ToldAs(info, entry->is_root);
  if (before == kNoOperator || before == entry->op) return;
  const OperatorInfo& old = runtime->operators->Get(before);
  if (old.path == "." || old.root != info.root) runtime->operators->AddAlias(before, info.path);
}

// describe(module, root_number, prefix, path, cls, leaf, is_root, aliases)
PyObject* Describe(PyObject*, PyObject* args) {
  PyObject *module, *prefix, *path, *cls, *aliases;
  unsigned long long root_number;
  int leaf, is_root;
  if (!PyArg_ParseTuple(args, "OKUUUppO!", &module, &root_number, &prefix, &path, &cls, &leaf,
                        &is_root, &PyList_Type, &aliases)) {
    return nullptr;
  }
  Runtime* runtime = CurrentRuntime();
  if (runtime == nullptr) Py_RETURN_NONE;
  OperatorInfo info;
  info.root = TextOf(prefix);
  info.path = TextOf(path);
  info.cls = TextOf(cls);
  info.leaf = leaf != 0;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(aliases); ++i)
    info.aliases.push_back(TextOf(PyList_GET_ITEM(aliases, i)));
  ModuleEntry* entry = ModuleTable::Get().Add(module);
  if (entry == nullptr) return nullptr;
  entry->root = ModuleTable::Get().RootOf(root_number);
  entry->root->prefix = info.root;
  entry->is_root = is_root != 0;
  Name(runtime, info, entry);
  Py_RETURN_NONE;
}

PyObject* ScriptedStart(PyObject*, PyObject*) { return PyBool_FromLong(StartScripted()); }

// scripted(module, object)
PyObject* Scripted(PyObject*, PyObject* args) {
  PyObject* module;
  long long object;
  if (!PyArg_ParseTuple(args, "OL", &module, &object)) return nullptr;
  NameScripted(module, static_cast<uintptr_t>(object));
  Py_RETURN_NONE;
}

PyObject* Ignore(PyObject*, PyObject* module) {
  ModuleEntry* entry = ModuleTable::Get().Add(module);
  if (entry == nullptr) return nullptr;
  entry->ignored = true;
  Py_RETURN_NONE;
}

// set_members(root_number, [module, ...]): in the order of named_modules()
PyObject* SetMembers(PyObject*, PyObject* args) {
  unsigned long long number;
  PyObject* list;
  if (!PyArg_ParseTuple(args, "KO!", &number, &PyList_Type, &list)) return nullptr;
  ModuleRoot* root = ModuleTable::Get().RootOf(number);
  root->stale = false;
  root->members.clear();
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i)
    root->members.push_back(PyList_GET_ITEM(list, i));
  root->expected = false;
  Py_RETURN_NONE;
}

// stale(root_number): the tree is named anew before its next outermost call
PyObject* Stale(PyObject*, PyObject* number) {
  const unsigned long long root = PyLong_AsUnsignedLongLong(number);
  if (PyErr_Occurred() != nullptr) return nullptr;
  ModuleTable::Get().RootOf(root)->stale = true;
  Py_RETURN_NONE;
}

// root_prefixes(): names.roots of the configuration, "EagleModel=draft\n..."
PyObject* RootPrefixes(PyObject*, PyObject*) {
  const Runtime* runtime = CurrentRuntime();
  return PyUnicode_FromString(runtime != nullptr ? runtime->root_prefixes : "");
}

// tap(value, name, tags, half, place): half 1 the value, 2 the gradient, 3 both; place: TapPlace
PyObject* TapValue(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count == 3) Tap(args[0], args[1], args[2], TapHalf::kBoth, TapPlace::kOpenModule);
  if (count != 5) Py_RETURN_NONE;
  const long half = PyLong_AsLong(args[3]);
  if (half < 1 || half > 3) return PyErr_Format(PyExc_ValueError, "no half of a tap: %ld", half);
  const long place = PyLong_AsLong(args[4]);
  if (place < 0 || place > 2)
    return PyErr_Format(PyExc_ValueError, "no place of a tap: %ld", place);
  Tap(args[0], args[1], args[2], static_cast<TapHalf>(half), static_cast<TapPlace>(place));
  Py_RETURN_NONE;
}

PyObject* Armed(PyObject*, PyObject*) {
  const Runtime* runtime = CurrentRuntime();
  return PyBool_FromLong(runtime != nullptr && runtime->gate->armed() && runtime->collect_taps);
}

PyObject* Summary(PyObject*, PyObject* summarise) {
  SetSummary(summarise);
  Py_RETURN_NONE;
}

PyObject* KeepOptimizerState(PyObject*, PyObject* optimizer) {
  RecordOptimizerState(optimizer);
  Py_RETURN_NONE;
}

// ---- for tdump/_compiled.py ----

PyObject* TracedStart(PyObject*, PyObject*) { return PyBool_FromLong(StartTraced()); }

PyObject* TracedNamer(PyObject*, PyObject* name) {
  SetClassNamer(name);
  Py_RETURN_NONE;
}

PyObject* TracedOpen(PyObject*, PyObject*) {
  PyObject* module = OpenModule();
  return module != nullptr ? module : Py_NewRef(Py_None);
}

PyObject* TracedTwins(PyObject*, PyObject* module) { return Twins(module); }

PyObject* TracedWants(PyObject*, PyObject* module) { return PyLong_FromLong(WantedOf(module)); }

// traced_wants_tap(module, name)
PyObject* TracedWantsTap(PyObject*, PyObject* arguments) {
  PyObject* module;
  const char* name;
  if (!PyArg_ParseTuple(arguments, "Os", &module, &name)) return nullptr;
  return PyLong_FromLong(WantedOfTap(module, name));
}

PyObject* TracedTaps(PyObject*, PyObject*) {
  const Runtime* runtime = CurrentRuntime();
  return PyBool_FromLong(runtime != nullptr && runtime->collect_taps);
}

PyObject* TracedSiteOf(PyObject*, PyObject* arguments) {
  const long long site = AddSite(arguments);
  return site < 0 ? nullptr : PyLong_FromLongLong(site);
}

// traced_root(module, witness)
PyObject* TracedRootOf(PyObject*, PyObject* arguments) {
  PyObject* module;
  const char* witness;
  if (!PyArg_ParseTuple(arguments, "Os", &module, &witness)) return nullptr;
  const long long site = AddRoot(module, witness);
  return site < 0 ? nullptr : PyLong_FromLongLong(site);
}

std::optional<BoundaryKind> BoundaryNamed(std::string_view word) {
  if (word == "step") return BoundaryKind::kExplicit;
  if (word == "optimizer_created") return BoundaryKind::kOptimizerCreated;
  if (word == "optimizer_step") return BoundaryKind::kOptimizerStep;
  if (word == "process_group") return BoundaryKind::kProcessGroup;
  return std::nullopt;
}

// boundary(kind, instance, name, number, rank, world); kind as in _hooks.py
PyObject* TellBoundary(PyObject*, PyObject* args) {
  const char *kind, *name = "";
  unsigned long long instance = 0;
  long long number = -1;
  int rank = -1, world = -1;
  if (!PyArg_ParseTuple(args, "s|KsLii", &kind, &instance, &name, &number, &rank, &world))
    return nullptr;
  Runtime* runtime = CurrentRuntime();
  if (runtime == nullptr || runtime->gate->off()) Py_RETURN_NONE;
  const std::optional<BoundaryKind> which = BoundaryNamed(kind);
  if (!which) {
    PyErr_Format(PyExc_ValueError, "unknown boundary %s", kind);
    return nullptr;
  }
  Boundary boundary;
  boundary.kind = *which;
  boundary.name = name;
  boundary.instance = instance;
  boundary.number = number;
  boundary.grad_enabled = GradEnabled();
  boundary.rank = rank;
  boundary.world = world;
  TellClock(runtime, boundary);
  StandHooksIfArmed(runtime);
  Py_RETURN_NONE;
}

PyObject* Note(PyObject*, PyObject* text) {
  const char* utf8 = PyUnicode_AsUTF8(text);
  if (utf8 == nullptr) return nullptr;
  Runtime* runtime = CurrentRuntime();
  if (runtime != nullptr && !runtime->gate->off()) {
    Activate(runtime);
    runtime->sink->note(utf8);
  }
  Py_RETURN_NONE;
}

// No exception goes into Python: where memory is out, nothing is recorded and the job goes on.
template <PyObject* (*kFunction)(PyObject*, PyObject*)>
PyObject* Quiet(PyObject* self, PyObject* args) noexcept try {
  return kFunction(self, args);
} catch (...) {
  PyErr_Clear();
  Py_RETURN_NONE;
}
template <PyObject* (*kFunction)(PyObject*, PyObject* const*, Py_ssize_t)>
PyObject* QuietFast(PyObject* self, PyObject* const* args, Py_ssize_t count) noexcept try {
  return kFunction(self, args, count);
} catch (...) {
  PyErr_Clear();
  Py_RETURN_NONE;
}

PyCFunction Fast(PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t)) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef methods[] = {
    {"running", Quiet<Running>, METH_NOARGS, "Whether tdump runs in this process."},
    {"start", Quiet<Start>, METH_VARARGS, "start(resolve, evaluate): installs the callbacks."},
    {"pre", Fast(QuietFast<Pre>), METH_FASTCALL, "pre(module, args)"},
    {"post", Fast(QuietFast<Post>), METH_FASTCALL, "post(module, kwargs, output)"},
    {"failed", Quiet<Failed>, METH_O, "failed(module): its forward raised."},
    {"hook_switch", Quiet<HookSwitch>, METH_VARARGS, "hook_switch(rest, stand)"},
    {"enter", Quiet<Enter>, METH_O,
     "enter(module): a call while the hooks rest; what leave() takes."},
    {"leave", Quiet<Leave>, METH_O, "leave(serial): the end of that call."},
    {"stand", Quiet<Stand>, METH_NOARGS, "stand(): brings the hooks back."},
    {"keep", Quiet<Keep>, METH_NOARGS, "keep(): brings the hooks back for good."},
    {"known", Quiet<Known>, METH_O, "known(module): whether it has been named."},
    {"describe", Quiet<Describe>, METH_VARARGS,
     "describe(module, root_number, prefix, path, cls, leaf, is_root, aliases)"},
    {"scripted_start", Quiet<ScriptedStart>, METH_NOARGS,
     "Whether calls inside script modules are to be seen."},
    {"scripted", Quiet<Scripted>, METH_VARARGS,
     "scripted(module, object): a named module is this object of TorchScript."},
    {"ignore", Quiet<Ignore>, METH_O, "ignore(module): a wrapper."},
    {"stale", Quiet<Stale>, METH_O, "stale(root_number): its modules were moved or added."},
    {"root_prefixes", Quiet<RootPrefixes>, METH_NOARGS, "names.roots of the configuration."},
    {"tap", Fast(QuietFast<TapValue>), METH_FASTCALL, "tap(value, name, tags[, half, place])"},
    {"armed", Quiet<Armed>, METH_NOARGS, "Whether a tap would be recorded now."},
    {"summary", Quiet<Summary>, METH_O, "summary(summarise): what is kept of tensors, or None."},
    {"optimizer_state", Quiet<KeepOptimizerState>, METH_O,
     "optimizer_state(optimizer): after its step."},
    {"set_members", Quiet<SetMembers>, METH_VARARGS, "set_members(root_number, modules)"},
    {"boundary", Quiet<TellBoundary>, METH_VARARGS,
     "boundary(kind, instance, name, number, rank, world)"},
    {"traced_start", Quiet<TracedStart>, METH_NOARGS,
     "Whether compiled code is to hand its values over."},
    {"traced_namer", Quiet<TracedNamer>, METH_O, "name(cls): names the modules of a class."},
    {"traced_open", Quiet<TracedOpen>, METH_NOARGS, "The innermost open module, or None."},
    {"traced_twins", Quiet<TracedTwins>, METH_O, "Named modules of the class of a module."},
    {"traced_wants", Quiet<TracedWants>, METH_O, "Bits: outputs, gradients, inputs, gradients."},
    {"traced_wants_tap", Quiet<TracedWantsTap>, METH_VARARGS, "The same of a tap in a module."},
    {"traced_taps", Quiet<TracedTaps>, METH_NOARGS, "Whether taps are collected."},
    {"traced_site", Quiet<TracedSiteOf>, METH_VARARGS,
     "traced_site(path, in_root, tap, tags, part, keeps, gradients, [(is_input, arg, late), ...])"},
    {"traced_root", Quiet<TracedRootOf>, METH_VARARGS, "traced_root(module, witness)"},
    {"note", Quiet<Note>, METH_O, "note(text): a line for the coverage."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "tdump._torch",
                          nullptr,
                          -1,
                          methods,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace
}  // namespace tdump::collectors

PyMODINIT_FUNC PyInit__torch() { return PyModule_Create(&tdump::collectors::definition); }
