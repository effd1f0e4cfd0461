#include "collectors/python/hooks.h"

#include <ATen/record_function.h>

#include <cstdio>
#include <utility>

#include "collectors/python/error_guard.h"
#include "collectors/python/flatten.h"
#include "collectors/python/in_python.h"
#include "collectors/python/left_calls.h"
#include "collectors/python/module_state.h"
#include "collectors/python/module_table.h"
#include "collectors/python/resting_hooks.h"
#include "collectors/torch/capture.h"
#include "collectors/torch/module_calls.h"
#include "collectors/torch/plugin.h"
#include "collectors/torch/scripted_calls.h"
#include "collectors/torch/torch_state.h"

namespace tdump::collectors {
namespace {

PyObject* resolver = nullptr;
PyObject* predicate_host = nullptr;
thread_local bool unseen = false;
// What a signal handler of the job raised while a hook ran Python: KeyboardInterrupt, SystemExit.
thread_local PyObject *interrupt = nullptr, *interrupt_value = nullptr, *interrupt_trace = nullptr;

// False: it was interrupted, and says nothing of the module.
bool Resolve(Runtime* runtime, PyObject* module) {
  if (resolver == nullptr) return true;
  PyObject* done = InPython([&] { return PyObject_CallOneArg(resolver, module); });
  Py_XDECREF(done);
  if (done != nullptr) return true;
  if (DropError()) return false;
  runtime->sink->note(std::string("a module of class ") + Py_TYPE(module)->tp_name +
                      " could not be named; not captured");
  return true;
}

// `outermost`: no module call is open, so a tree whose modules were moved may get its new names.
ModuleEntry* EntryOf(Runtime* runtime, PyObject* module, bool outermost) {
  ModuleTable& table = ModuleTable::Get();
  ModuleEntry* entry = table.Find(module);
  const bool moved = outermost && entry != nullptr && entry->root != nullptr && entry->root->stale;
  if (entry != nullptr && !moved) return entry;
  if (!Resolve(runtime, module)) return nullptr;
  entry = table.Find(module);
  if (entry == nullptr) {  // no name could be found: never asked for again
    entry = table.Add(module);
    if (entry == nullptr)
      PyErr_Clear();
    else
      entry->ignored = true;
  }
  return entry;
}

int EvaluatePredicate(const char* spec, const char* name, const void* subject, char* error,
                      size_t error_bytes) {
  if (!Py_IsInitialized() || predicate_host == nullptr) {
    std::snprintf(error, error_bytes, "no Python in this process");
    return -1;
  }
  const PyGILState_STATE gil = InPython([] { return PyGILState_Ensure(); });
  int verdict = -1;
  {
    ErrorGuard guard;
    const at::DisableRecordFunctionGuard no_operators;
    const UnseenModules no_modules;
    PyObject* module =
        subject != nullptr ? static_cast<PyObject*>(const_cast<void*>(subject)) : Py_None;
    PyObject* answer =
        InPython([&] { return PyObject_CallFunction(predicate_host, "ssO", spec, name, module); });
    // True, False, or the text of what went wrong.
    if (answer != nullptr && PyUnicode_Check(answer)) {
      const char* text = PyUnicode_AsUTF8(answer);
      std::snprintf(error, error_bytes, "%s", text != nullptr ? text : "failed");
    } else if (answer != nullptr) {
      verdict = PyObject_IsTrue(answer);
    }
    if (verdict < 0 && answer == nullptr)
      std::snprintf(error, error_bytes, "the predicate could not be run");
    Py_XDECREF(answer);
    DropError();
  }
  PyGILState_Release(gil);
  return verdict;
}

// Frames the interpreter may still go down, with what BalanceDepth() gave, and the limit that they
// and the frames in use make together: sys.setrecursionlimit() moves both, in every thread.
#if PY_VERSION_HEX >= 0x030C0000
int& Remaining(PyThreadState* state) { return state->py_recursion_remaining; }
int LimitOf(const PyThreadState* state) { return state->py_recursion_limit; }
constexpr int kDirection = 1;
#elif PY_VERSION_HEX >= 0x030B0000
int& Remaining(PyThreadState* state) { return state->recursion_remaining; }
int LimitOf(const PyThreadState* state) { return state->recursion_limit; }
constexpr int kDirection = 1;
#else
int& Remaining(PyThreadState* state) { return state->recursion_depth; }
int LimitOf(const PyThreadState*) { return 0; }
constexpr int kDirection = -1;  // counts frames in use
#endif

constexpr int kFramesOfHooks = 4;
constexpr int64_t kFramesOfCall = 4;  // three of torch's and the hook's
thread_local int given_frames = 0;

}  // namespace

int64_t DepthOf(PyThreadState* state, int given) {
  return int64_t{given} + LimitOf(state) - int64_t{kDirection} * Remaining(state);
}

int64_t InterpreterDepth() { return DepthOf(PyThreadState_Get(), given_frames); }

void BalanceDepth(size_t open) {
  const int wanted = open == 0 ? 0 : static_cast<int>(open) + kFramesOfHooks;
  if (wanted == given_frames) return;
  Remaining(PyThreadState_Get()) += kDirection * (wanted - given_frames);
  given_frames = wanted;
  if (const auto& shared = ModuleCalls::OfThread().shared())
    shared->given.store(wanted, std::memory_order_relaxed);
}

ModuleFrame* BeginCall(Runtime* runtime, const ModuleIdentity& identity, int64_t depth,
                       int64_t frames, bool silent) noexcept {
  ModuleCalls& calls = ModuleCalls::OfThread();
  if (calls.empty()) TellOfLeftCalls(runtime);
  ModuleFrame* frame = calls.Push(runtime, identity, depth, silent);
  if (frame != nullptr && frame->announced) NoteOpenCall(calls, depth - frames + 1);
  return frame;
}

ModuleIdentity IdentityOf(const Runtime* runtime, PyObject* module, const ModuleEntry& entry) {
  return {.module = module,
          .op = entry.op,
          .is_root = entry.is_root,
          .told_as = entry.told_as,
          .cls = runtime->operators->Get(entry.op).cls,
          .root_number = entry.root->number};
}

bool Inert(const Runtime* runtime) { return runtime == nullptr || runtime->gate->off() || unseen; }

UnseenModules::UnseenModules() : before_(std::exchange(unseen, true)) {}
UnseenModules::~UnseenModules() { unseen = before_; }

void SetResolver(PyObject* resolve) {
  Py_XINCREF(resolve);
  resolver = resolve;
}

void SetPredicateHost(Runtime* runtime, PyObject* evaluate) {
  Py_XINCREF(evaluate);
  predicate_host = evaluate;
  runtime->predicate = EvaluatePredicate;
}

void BeforeForward(PyObject* module, PyObject* args) {
  Runtime* runtime = CurrentRuntime();
  if (Inert(runtime)) return;
  ErrorGuard guard;
  ModuleCalls& calls = ModuleCalls::OfThread();
  const int64_t depth = InterpreterDepth();
  if (!calls.empty()) calls.DropStale(runtime, depth);
  ModuleEntry* entry = EntryOf(runtime, module, calls.empty());
  if (entry == nullptr || entry->ignored || entry->op == kNoOperator) return;
  const char* tracing = TracingRegion();
  ModuleFrame* frame = calls.top();
  if (frame != nullptr && frame->waiting && frame->module == module)
    frame->waiting = false;
  else
    frame = BeginCall(runtime, IdentityOf(runtime, module, *entry), depth, kFramesOfCall,
                      tracing != nullptr);
  if (frame == nullptr) return;
  BalanceDepth(calls.size());
  if (tracing != nullptr) {
    Activate(runtime);
    runtime->sink->note(std::string(tracing) +
                        ": modules are traced here, not run; not captured (not in this version)");
    return;
  }
  if (frame->announced) {
    NoteOutermost(entry);
    OnOutermostCall(runtime, entry->root);
  }
  if (entry->script != nullptr) PrepareScripted(entry->script);
  if (!runtime->recorder->Begin(entry->op, module, Phase::kForward, frame->recompute,
                                &frame->scope))
    return;
  Flattener(*runtime->recorder, &frame->scope, Role::kInput, /*late=*/false).VisitArguments(args);
}

bool DropError() {
  if (PyErr_Occurred() == nullptr) return false;
  const bool interrupts = !PyErr_ExceptionMatches(PyExc_Exception);
  if (interrupts && interrupt == nullptr)
    PyErr_Fetch(&interrupt, &interrupt_value, &interrupt_trace);
  PyErr_Clear();
  return interrupts;
}

bool RaiseInterrupt() {
  if (interrupt == nullptr) return false;
  PyErr_Restore(interrupt, interrupt_value, interrupt_trace);
  interrupt = interrupt_value = interrupt_trace = nullptr;
  return true;
}

void AfterForward(PyObject* module, PyObject* kwargs, PyObject* output) {
  Runtime* runtime = CurrentRuntime();
  if (Inert(runtime)) return;
  ErrorGuard guard;
  ModuleCalls& calls = ModuleCalls::OfThread();
  ModuleFrame* frame = calls.Find(runtime, module);
  if (frame == nullptr) return;
  if (frame->scope.call.begin != 0) {
    // A global pre-hook is not given keyword arguments: these are seen
    // after the call, and marked so.
    Flattener(*runtime->recorder, &frame->scope, Role::kInput, /*late=*/true).VisitKeywords(kwargs);
    Flattener(*runtime->recorder, &frame->scope, Role::kOutput, /*late=*/false).Visit(output, "");
  }
  calls.Pop(runtime, /*threw=*/false);
  BalanceDepth(calls.size());
  if (calls.empty()) RestHooks(runtime);
}

void AfterFailedForward(PyObject* module) {
  Runtime* runtime = CurrentRuntime();
  if (Inert(runtime)) return;
  ErrorGuard guard;
  ModuleCalls& calls = ModuleCalls::OfThread();
  if (calls.Find(runtime, module) != nullptr) calls.Pop(runtime, /*threw=*/true);
  BalanceDepth(calls.size());
}

}  // namespace tdump::collectors
