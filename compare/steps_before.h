// StepsBefore: of pairs of passes that are compared one rank at a time, each with what is known of
// the same ranks one step earlier (compare/step_before.h).
//
// Thousands of ranks may be between a pass and the one before: of each the verdicts alone are kept,
// a bit for each parameter, gradient and number of an optimizer, and none where they explain
// nothing. The records are paired again when a pass asks, which is where a weight is outside its
// bound.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "compare/pass_diff.h"
#include "compare/run_side.h"
#include "compare/step_before.h"

namespace tdump::compare {

// Thread-safe. All it is given outlives it.
class StepsBefore {
 public:
  // `is_same_process`: whether one process of a team compares both.
  StepsBefore(const RunSide& a, const RunSide& b, const std::vector<PassPair>& pairs,
              const PassDiffOptions& options,
              const std::function<bool(size_t i, size_t before)>& is_same_process);

  // Whether what is before the pair, all the way, is compared by the process that compares it. Of
  // others process 0 alone knows, once all pairs before have come to it.
  bool IsKnownTo(size_t i) const { return known_[i]; }
  // Of the pair one step before, which is being compared, or has been: waits for it. Null: none.
  std::shared_ptr<const StepBefore> Before(size_t i);
  // Of every pair that this process took in hand; `diff`: null where nothing came of it.
  void Put(size_t i, const PassDiff* diff);
  // Once the pair needs it no more.
  void ForgetBefore(size_t i);

  // Whether a weight of the pass, or a momentum, is outside its bound, so that what was before may
  // explain it.
  static bool IsNeeded(const PassDiff& diff);

 private:
  // Of the records that StepBefore::Has, in the order of their ids in B.
  using Verdicts = std::vector<bool>;
  static Verdicts VerdictsOf(const PassDiff& diff);

  const RunSide& a_;
  const RunSide& b_;
  const std::vector<PassPair>& pairs_;
  const PassDiffOptions& options_;
  std::vector<std::optional<size_t>> before_;  // by pair
  std::vector<bool> known_, followed_;
  std::mutex mutex_;
  std::condition_variable put_;
  std::map<size_t, std::shared_ptr<const Verdicts>> verdicts_;  // null: explain nothing
};

}  // namespace tdump::compare
