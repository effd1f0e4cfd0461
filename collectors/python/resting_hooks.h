// Off is free: while no step is recorded, the global module hooks are taken away, and only the
// modules whose calls mark steps are watched, by a __call__ of their class (tdump/_hooks.py).
//
//   1. A module is outermost when no other module's call is open. Which modules that are is learned
//      while the hooks stand. When many outermost calls in a row were of known ones and this step
//      is not recorded, the hooks go.
//   2. A watched module tells the clock of its outermost calls through EnterWatched() and
//      LeaveWatched(). When the step that begins there is recorded, the hooks are back before its
//      forward runs: the hook of the module goes on with the call that EnterWatched() opened.
//   3. They come back, too, when a module is built or moved, when something is compiled (compiled
//      code guards on the hooks), and now and then, to learn of models that were not known.
// They never go where steps begin without the call of a module, or by the name of a part.
//
// Everything here needs the GIL and leaves no Python error set.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>

#include "collectors/python/module_table.h"

namespace tdump::collectors {

// `rest([module, ...])` takes the hooks away and watches these modules, or returns False when that
// cannot be done; `stand()` brings them back. Kept for as long as the process lives.
void SetHookSwitch(PyObject* rest, PyObject* stand);

// From the hook of a module whose call was told to the clock.
void NoteOutermost(ModuleEntry* entry);
// At the end of an outermost call: takes the hooks away if they may go.
void RestHooks(Runtime* runtime);
// Brings them back; nothing when they stand.
void StandHooks();
void StandHooksIfArmed(const Runtime* runtime);
// Not to be taken away again in this process.
void KeepHooks();

// Around a call of a watched module while the hooks are away. 0: nothing was opened.
uint64_t EnterWatched(PyObject* module);
void LeaveWatched(uint64_t serial);

}  // namespace tdump::collectors
