// Merging on the machine where the job ran, or runs: what only the system and the slot files know.
#pragma once

#include "coordinator/merge.h"
#include "core/env.h"

namespace tdump::coordinator {

// Asks the system whether a process lives, and its slot file (slot_file.h) how far it was.
MergeOptions MergeOptionsHere(Env* env = Env::Posix());

}  // namespace tdump::coordinator
