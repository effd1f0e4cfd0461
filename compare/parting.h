// Parting: where two runs are given different token ids, they do different work from there on, and
// nothing more is judged.
#pragma once

#include "compare/pass_diff.h"

namespace tdump::compare {

// Whether an integer input of the model differs.
bool GivenOtherTokens(const PassDiff& pass);

}  // namespace tdump::compare
