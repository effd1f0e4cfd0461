// The module hooks: what tdump/_hooks.py calls before and after every forward of an nn.Module.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstddef>
#include <cstdint>

#include "collectors/python/module_table.h"
#include "collectors/torch/module_calls.h"

namespace tdump::collectors {

// `resolve(module)` names a module the table does not know (tdump/_naming.py); borrowed for ever.
void SetResolver(PyObject* resolve);
// `evaluate(spec, name, module)` runs a predicate of the configuration
// (tdump/_predicates.py); borrowed for ever.
void SetPredicateHost(Runtime* runtime, PyObject* evaluate);

// Nothing is recorded: no runtime, tdump is off, or within UnseenModules.
bool Inert(const Runtime* runtime);

// Modules and taps of this thread are none of the job's: a function for tdump is running, a
// predicate of the configuration or one of tdump.log.
class UnseenModules {
 public:
  UnseenModules();
  ~UnseenModules();
  UnseenModules(const UnseenModules&) = delete;

 private:
  bool before_;
};

// How deep the interpreter is: a frame that is not shallower than a new
// call was left behind by an exception.
int64_t InterpreterDepth();
// The same of any thread; `given`: the frames that BalanceDepth() gave it. Needs the GIL.
int64_t DepthOf(PyThreadState* state, int given);
// A module with hooks takes one frame of the interpreter more than one without. Lets the thread go
// as much deeper as its open module calls, and a little for the hooks themselves, so that a job
// meets its recursion limit where it would have met it. `open`: module calls of this thread.
void BalanceDepth(size_t open);

// Begins the call of a module. Of the interpreter's frames at `depth`, `frames` are torch's and
// tdump's for this call. Null: out of memory.
ModuleFrame* BeginCall(Runtime* runtime, const ModuleIdentity& identity, int64_t depth,
                       int64_t frames, bool silent = false) noexcept;

// The module as the clock sees it. Valid as long as the entry.
ModuleIdentity IdentityOf(const Runtime* runtime, PyObject* module, const ModuleEntry& entry);

// Each leaves no Python error set and never fails the forward.
void BeforeForward(PyObject* module, PyObject* args);
// What a signal handler raised while a hook ran Python and is no Exception (Ctrl-C) is the job's:
// DropError drops the error that is set, and keeps it for the thread's RaiseInterrupt if it is one
// such (then true). RaiseInterrupt sets it; false: there is none.
bool DropError();
bool RaiseInterrupt();
void AfterForward(PyObject* module, PyObject* kwargs, PyObject* output);
void AfterFailedForward(PyObject* module);

}  // namespace tdump::collectors
