#include "collectors/python/scripted_modules.h"

#include <exception>
#include <string>
#include <unordered_map>

#include "collectors/python/error_guard.h"
#include "collectors/python/gil.h"
#include "collectors/python/hooks.h"
#include "collectors/python/module_state.h"
#include "collectors/python/module_table.h"
#include "collectors/torch/error_text.h"
#include "collectors/torch/module_calls.h"
#include "collectors/torch/plugin.h"
#include "collectors/torch/scripted_calls.h"

namespace tdump::collectors {
namespace {

// By the object's address. The module may have died; then the table has another object of it, or
// none.
std::unordered_map<const void*, PyObject*>& ModulesByObject() {
  static auto* modules = new std::unordered_map<const void*, PyObject*>;
  return *modules;
}

uint64_t BeginCallOf(Runtime* runtime, const void* object) {
  const auto found = ModulesByObject().find(object);
  if (found == ModulesByObject().end()) return 0;
  PyObject* module = found->second;
  const ModuleEntry* entry = ModuleTable::Get().Find(module);
  const bool named = entry != nullptr && entry->script == object && !entry->ignored &&
                     entry->op != kNoOperator && entry->root != nullptr;
  if (!named) return 0;
  ModuleCalls& calls = ModuleCalls::OfThread();
  if (calls.top() != nullptr && calls.top()->module == module) return 0;  // its hook opened it
  // Deeper than what runs the script module: as if a function of Python had been called.
  ModuleFrame* frame =
      BeginCall(runtime, IdentityOf(runtime, module, *entry), InterpreterDepth() + 1, /*frames=*/1);
  if (frame == nullptr) return 0;
  if (frame->announced) OnOutermostCall(runtime, entry->root);
  return frame->serial;
}

uint64_t BeginScripted(const void* object) try {
  if (!Py_IsInitialized()) return 0;
  const Gil gil;
  const ErrorGuard guard;
  Runtime* runtime = CurrentRuntime();
  return Inert(runtime) ? 0 : BeginCallOf(runtime, object);
} catch (...) {  // out of memory
  return 0;
}

}  // namespace

bool StartScripted() {
  Runtime* runtime = CurrentRuntime();
  if (Inert(runtime) || !runtime->collect_modules || !runtime->collect_compiled) return false;
  try {
    DefineScriptedOperators({.begin = BeginScripted});
    return true;
  } catch (const std::exception& error) {
    runtime->sink->note("TorchScript: " + WhatOf(error) + "; not captured");
    return false;
  }
}

void NameScripted(PyObject* module, uintptr_t object) {
  ModuleEntry* entry = ModuleTable::Get().Find(module);
  if (entry == nullptr) return;
  entry->script = reinterpret_cast<const void*>(object);
  std::erase_if(ModulesByObject(), [](const auto& known) {
    const ModuleEntry* alive = ModuleTable::Get().Find(known.second);
    return alive == nullptr || alive->script != known.first;
  });
  ModulesByObject()[entry->script] = module;
}

}  // namespace tdump::collectors
