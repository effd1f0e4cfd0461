#include "collectors/python/resting_hooks.h"

#include <algorithm>

#include "collectors/python/error_guard.h"
#include "collectors/python/hooks.h"
#include "collectors/python/in_python.h"
#include "collectors/torch/module_calls.h"
#include "collectors/torch/plugin.h"
#include "collectors/torch/scripted_calls.h"
#include "collectors/torch/torch_state.h"

namespace tdump::collectors {
namespace {

constexpr int64_t kFramesOfCall = 2;     // _watched_call's, and before 3.12 that of what it calls
constexpr uint32_t kSteady = 16;         // outermost calls of known modules before the hooks go
constexpr uint32_t kFirstRest = 256;     // outermost calls until they come back to look,
constexpr uint32_t kLongestRest = 1024;  // twice as many each time while they see nothing new

struct Hooks {
  PyObject* rest = nullptr;
  PyObject* stand = nullptr;
  bool resting = false;
  bool kept = false;
  uint32_t steady = 0;
  uint32_t rested = 0;  // outermost calls since they went
  uint32_t rest_for = kFirstRest;
};
Hooks hooks;

bool MayRest(const Runtime& runtime) {
  if (hooks.resting || hooks.kept || hooks.rest == nullptr || hooks.steady < kSteady) return false;
  if (runtime.tell_backward || runtime.tell_operators || runtime.tell_parts) return false;
  return runtime.gate->state.load(std::memory_order_acquire) == GateState::kIdle;
}

// Calls a function of _hooks.py; -1 when it failed.
int Ask(PyObject* function, PyObject* argument) {
  PyObject* answer = InPython([&] {
    return argument != nullptr ? PyObject_CallOneArg(function, argument)
                               : PyObject_CallNoArgs(function);
  });
  const int yes = answer != nullptr ? PyObject_IsTrue(answer) : -1;
  Py_XDECREF(answer);
  DropError();
  return yes;
}

}  // namespace

void SetHookSwitch(PyObject* rest, PyObject* stand) {
  hooks.rest = Py_NewRef(rest);
  hooks.stand = Py_NewRef(stand);
}

void NoteOutermost(ModuleEntry* entry) {
  hooks.steady = entry->outermost ? hooks.steady + 1 : 0;
  if (!entry->outermost) hooks.rest_for = kFirstRest;
  entry->outermost = true;
}

void RestHooks(Runtime* runtime) {
  if (!MayRest(*runtime)) return;
  PyObject* watched = PyList_New(0);
  for (PyObject* module : ModuleTable::Get().Watched()) {
    if (watched != nullptr && PyList_Append(watched, module) != 0) Py_CLEAR(watched);
  }
  if (watched == nullptr) return PyErr_Clear();
  hooks.resting = Ask(hooks.rest, watched) == 1;
  hooks.kept = !hooks.resting;
  hooks.rested = 0;
  Py_DECREF(watched);
}

void StandHooks() {
  if (!hooks.resting) return;
  hooks.resting = false;
  Ask(hooks.stand, nullptr);
}

void StandHooksIfArmed(const Runtime* runtime) {
  if (hooks.resting && runtime->gate->armed()) StandHooks();
}

void KeepHooks() {
  hooks.kept = true;
  StandHooks();
}

uint64_t EnterWatched(PyObject* module) {
  Runtime* runtime = CurrentRuntime();
  if (Inert(runtime)) return 0;
  ErrorGuard guard;
  ModuleCalls& calls = ModuleCalls::OfThread();
  const int64_t depth = InterpreterDepth();
  if (!calls.empty()) calls.DropStale(runtime, depth);
  const ModuleEntry* entry = ModuleTable::Get().Find(module);
  if (!calls.empty() || entry == nullptr || entry->ignored || entry->op == kNoOperator) return 0;
  if (!entry->is_root && !entry->outermost) return 0;
  const bool moved = entry->root != nullptr && entry->root->stale;
  const bool looks = ++hooks.rested > hooks.rest_for;
  if (looks) hooks.rest_for = std::min(2 * hooks.rest_for, kLongestRest);
  if (moved || looks || TracingRegion() != nullptr) {
    hooks.steady = 0;
    StandHooks();
    return 0;
  }
  ModuleFrame* frame =
      BeginCall(runtime, IdentityOf(runtime, module, *entry), depth, kFramesOfCall);
  if (frame == nullptr) return 0;
  frame->waiting = true;
  if (entry->script != nullptr) PrepareScripted(entry->script);
  const uint64_t serial = frame->serial;
  StandHooksIfArmed(runtime);
  return serial;
}

void LeaveWatched(uint64_t serial) {
  Runtime* runtime = CurrentRuntime();
  if (runtime == nullptr) return;
  ErrorGuard guard;
  ModuleCalls& calls = ModuleCalls::OfThread();
  ModuleFrame* frame = calls.WithSerial(serial);
  if (frame != nullptr) {
    calls.UnwindTo(runtime, frame);
    // A hook that began the record would have ended it, but for an exception it is not told of.
    calls.Pop(runtime, /*threw=*/frame->scope.call.begin != 0);
  }
  BalanceDepth(calls.size());
}

}  // namespace tdump::collectors
