// The capture signature: what two runs say of themselves, looked at before any value. Differences
// that make every comparison meaningless are a reason to refuse; others are notes.
#pragma once

#include <string>
#include <vector>

#include "compare/pairing.h"
#include "compare/run_side.h"

namespace tdump::compare {

struct SignatureCheck {
  std::string refusal;             // why nothing is compared, and what to do; empty: go on
  std::vector<std::string> notes;  // "versions differ: A torch 2.14, B torch 2.15"
};

// Of the captures: both say which configuration they had, and it was not the same.
bool HaveOtherRules(const RunFacts& a, const RunFacts& b);

// Refused: of the parameters that both sides have under one name, more than half have other shapes:
// these are models of different sizes. `first`: the first pair of passes, from whose tensors the
// models' classes and parameters are read; a side that cannot be opened says nothing. `equal`: the
// two hold the same, so they are not read.
SignatureCheck CheckSignature(const RunSide& a, const RunSide& b, const PassPair& first,
                              bool equal = false);

// The same where ranks are put together; `first`: the first pair of steps. `mapped`: names are, and
// shapes of tensors whose names differ may as well (fused, padded): of those it is a note.
SignatureCheck CheckSignature(const RunSide& a, const RunSide& b, const OpenedPair& first,
                              bool mapped);

}  // namespace tdump::compare
