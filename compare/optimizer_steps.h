// OptimizerSteps: whether a weight that parts on the way may have parted harmlessly: under an
// optimizer that divides by the size of the gradient, as Adam does, the rounding of a tiny gradient
// makes whole steps of the learning rate.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "compare/pass_diff.h"
#include "compare/row.h"

namespace tdump::compare {

// Not thread-safe.
class OptimizerSteps {
 public:
  // A pair of what an optimizer keeps, in order of steps. `rank`: of the pass.
  void AddState(const Row& row, int32_t rank, const Outcome& outcome);

  // Of a parameter or buffer that differs, once the states of the step before were added: not where
  // these are equal, nor where the numbers that differ are too few and too large.
  bool MayHaveMade(const Row& row, int32_t rank, const Outcome& outcome) const;

  // `boundary`: RunFacts::boundary, "optimizer (AdamW)". True where nothing is known.
  bool MayDivide(std::string_view boundary) const;

 private:
  struct Kept {
    uint64_t step = 0;
    bool equal = true;  // all that is kept of the parameter, bit by bit
  };
  // The last two steps that have some, the last one first.
  using Latest = std::array<std::optional<Kept>, 2>;

  std::map<std::pair<int32_t, std::string>, Latest> kept_;  // by rank and parameter
  bool divides_ = false;                                    // keeps sizes of gradients
  bool averages_ = false;                                   // keeps their momentum
};

}  // namespace tdump::compare
