// What a checkpoint computed anew while backward ran, where the other side has nothing like it, as
// of a job without checkpoints. The first forward is there on both sides and is what is compared.
// (A gradient that comes from the second forward is paired with one that does not:
// compare/name_after_first.h.)
#pragma once

#include "compare/pass_diff.h"

namespace tdump::compare {

// Takes out of what has no partner, and adds notes that say so:
// - forwards that equal a first forward of their name on the same side;
// - gradients of inputs, where that of the same call through the first forward was paired: what
//   comes into a reentrant checkpoint is watched in both forwards.
// All else stays; a note names what was computed otherwise than its first forward.
void LeaveOutRecomputed(PassDiff* diff);

}  // namespace tdump::compare
