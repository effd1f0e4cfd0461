// StateHints: what to do where pairs of what an optimizer keeps fail, and nothing was recorded that
// tells whether rounding explains it, or by how much they differ.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compare/pass_diff.h"

namespace tdump::compare {

// Not thread-safe.
class StateHints {
 public:
  // An outcome that fails and is not allowed to.
  void Add(const Outcome& outcome);
  std::vector<std::string> Notes() const;

 private:
  uint64_t without_gradient_ = 0, without_values_ = 0;  // pairs
};

}  // namespace tdump::compare
