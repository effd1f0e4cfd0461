// What a checkpoint computed anew while backward ran, where the other side has nothing like it, as
// of a job without checkpoints. The first forward is there on both sides and is what is compared.
// (A gradient that comes from the second forward is paired with one that does not:
// compare/leftovers.h.)
#pragma once

#include "compare/pass_diff.h"

namespace tdump::compare {

// Takes such records out of what has no partner, and adds a note that says so. One of which the
// same side has no first forward stays.
void LeaveOutRecomputed(PassDiff* diff);

}  // namespace tdump::compare
