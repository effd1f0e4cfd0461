// UnexplainedStates: what an optimizer keeps that differs, known by its hash alone, although
// nothing does that it is made of.
//
//   It is made of what was kept one step before and of the gradients of the step: of its parameter,
//   on all ranks that are summed over, and of the others where they are clipped by their norm. No
//   rounding is left that could make a difference where
//   1. both runs are of the same versions, and nothing that was compared before the step differs;
//   2. the step before, one number less on both sides, kept the same tensors: the two runs sum and
//      update alike to the bit;
//   3. the step is compared on every rank of both worlds, each with gradients of parameters and no
//      record alone, and all but what optimizers keep is equal bit for bit;
//   4. the gradient of its parameter is among that.
//   Later steps follow from it, and tell nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "compare/pairing.h"
#include "compare/pass_diff.h"
#include "compare/record_patterns.h"
#include "compare/run_side.h"

namespace tdump::compare {

// Not thread-safe. All it is given outlives it. Memory: a number for each rank of two steps.
class UnexplainedStates {
 public:
  // `allowed`: records that may differ.
  UnexplainedStates(const RunSide* a, const RunSide* b, const RecordPatterns* allowed)
      : a_(a), b_(b), allowed_(allowed) {}

  // Passes come in order of step.
  void AddPass(const PassDiff& pass, const PassPair& pair);

  struct Found {
    uint64_t step = 0;   // of B
    uint64_t pairs = 0;  // of that step
  };
  // Once, after the last pass.
  std::optional<Found> Finish();

 private:
  struct Step {
    uint64_t a = 0, b = 0;
    std::map<int32_t, uint64_t> kept;  // by rank: which tensors optimizers keep
    bool all_given_equal = true;       // 3, but for ranks that are not compared
    bool has_gradients = true;         // on each of them
    bool all_kept_equal = true;
    uint64_t unexplained = 0;  // as far as the pass tells
  };
  void Close();
  bool IsEveryRank(const Step& step) const;

  const RunSide* a_;
  const RunSide* b_;
  const RecordPatterns* allowed_;
  std::optional<Step> before_, open_;
  std::optional<Found> found_;
  bool over_ = false;  // something differs
};

}  // namespace tdump::compare
