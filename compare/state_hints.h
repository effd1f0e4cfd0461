// StateHints: what to do where pairs of what an optimizer keeps fail, and nothing was recorded that
// tells whether rounding explains it.
#pragma once

#include <cstdint>
#include <string>

#include "compare/pass_diff.h"

namespace tdump::compare {

// Not thread-safe.
class StateHints {
 public:
  // An outcome that fails and is not allowed to.
  void Add(const Outcome& outcome);
  // "" where there are none.
  std::string Note() const;

 private:
  uint64_t pairs_ = 0;
};

}  // namespace tdump::compare
