// Parting: where two runs are given different token ids, they do different work from there on, and
// nothing more is judged but the weights that they began the step with.
#pragma once

#include "compare/pass_diff.h"

namespace tdump::compare {

// Whether an integer input of the model differs.
bool GivenOtherTokens(const PassDiff& pass);

// Whether a pair is compared even so: what the model was given, and parameters and buffers, which
// are as the steps before left them.
bool TellsOfOtherWork(const PassDiff& pass, const Outcome& outcome);

}  // namespace tdump::compare
