// What ranks hand on to each other where nobody says which of them are stages of a pipeline: values
// tell. A rank whose first difference is an input that another rank made, bit for bit in A and in
// B, is not where the runs part.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compare/origin.h"
#include "compare/pairing.h"
#include "compare/pass_diff.h"
#include "compare/run_side.h"
#include "io/hash.h"

namespace tdump::compare {

// What an input is in A and in B.
struct Given {
  io::Hash128 a, b;
  bool operator==(const Given&) const = default;
};
// None of what is no input, or not known by hash.
std::optional<Given> GivenIn(const PassDiff& pass, const Outcome& outcome);

// Where a rank parts: a pair of passes, and the first difference where it is an input.
struct Parting {
  PassPair pair;
  std::optional<Given> given;
};

// As ChooseOrigin, but passes over candidates that another one's rank made, and notes that. Opens
// the passes of a few ranks again. `partings`: of the candidates.
size_t ChooseMaker(const RunSide& a, const RunSide& b, std::span<const Candidate> candidates,
                   std::span<const Parting> partings, std::vector<std::string>* notes);

}  // namespace tdump::compare
