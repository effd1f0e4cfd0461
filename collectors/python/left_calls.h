// Outermost calls that an exception left without telling torch's hooks (SystemExit, pthread_exit).
// Their thread finds out when it calls a module again or ends, and Python may let another thread go
// on before that: until then all other calls would belong to the step of the one that was left.
#pragma once

#include <cstdint>

#include "collectors/torch/module_calls.h"
#include "core/runtime.h"

namespace tdump::collectors {

// The calling thread begins an outermost call, at the end of which its interpreter is no less than
// `least` deep. Both need the GIL.
void NoteOpenCall(const ModuleCalls& calls, int64_t least) noexcept;
// Before that: tells the clock of calls of other threads that were left.
void TellOfLeftCalls(Runtime* runtime) noexcept;

}  // namespace tdump::collectors
