#include "collectors/python/left_calls.h"

#include <memory>
#include <vector>

#include "collectors/python/hooks.h"

namespace tdump::collectors {
namespace {

struct OpenCall {
  uint64_t state = 0;  // PyThreadState_GetID()
  uint64_t call = 0;   // as in OpenCalls; when that has gone on, nothing is known of what is open
  int64_t least = 0;   // depth of the interpreter within the call
  std::shared_ptr<OpenCalls> calls;
};

// Of each thread that has called a module. Guarded by the GIL; never destroyed, threads may outlive
// the end of the interpreter.
std::vector<OpenCall>& All() {
  static auto* all = new std::vector<OpenCall>;
  return *all;
}

PyThreadState* StateOf(uint64_t id) {
  PyThreadState* state = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
  while (state != nullptr && PyThreadState_GetID(state) != id) state = PyThreadState_Next(state);
  return state;
}

}  // namespace

void NoteOpenCall(const ModuleCalls& calls, int64_t least) noexcept try {
  const uint64_t id = PyThreadState_GetID(PyThreadState_Get());
  const OpenCall open{id, calls.shared()->call.load(), least, calls.shared()};
  for (OpenCall& known : All()) {
    if (known.calls == calls.shared()) return void(known = open);
  }
  All().push_back(open);
} catch (...) {  // out of memory: if this call is left, its thread tells of it
}

void TellOfLeftCalls(Runtime* runtime) noexcept {
#ifndef Py_GIL_DISABLED  // no thread may look at another one's state there
  std::vector<OpenCall>& all = All();
  if (all.empty() || (all.size() == 1 && all[0].calls == ModuleCalls::OfThread().shared())) return;
  std::erase_if(all, [&](const OpenCall& known) {
    if (known.calls == ModuleCalls::OfThread().shared()) return false;
    if (known.calls->call.load() != known.call) return true;
    PyThreadState* state = StateOf(known.state);
    const int given = known.calls->given.load(std::memory_order_relaxed);
    if (state != nullptr && DepthOf(state, given) >= known.least) return false;
    ModuleCalls::TellLeft(runtime, known.calls.get(), known.call,
                          /*thread_ended=*/state == nullptr);
    return true;
  });
#endif
}

}  // namespace tdump::collectors
