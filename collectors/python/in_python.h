// Calls into Python from hooks.
#pragma once

#include <cxxabi.h>
#include <unistd.h>

#include <utility>

namespace tdump::collectors {

// Runs `work`, which may give the GIL away or wait for it. A thread that wants it of an interpreter
// that is being finalised (a daemon thread at the end of the job) is ended there by an unwind of
// its frames, and a hook has frames that let nothing through: the process would be aborted. The
// thread stays here until the process has ended, as all do from Python 3.14 on.
template <class Work>
decltype(auto) InPython(Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (abi::__forced_unwind&) {
    for (;;) ::pause();
  }
}

}  // namespace tdump::collectors
