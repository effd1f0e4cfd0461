// OptimizerUpdates: weights that parted on the way because an optimizer made its step of what
// differs by rounding. Under Adam the rounding of a tiny gradient makes a whole step of the
// learning rate, and a weight that was 0 is as far off as its gradient.
//
//   A weight was w, and is w' one step later, the update is d = w' - w. Of what the optimizer keeps
//   of it, x, each number's error counts relative to its size: an update that is a product of
//   powers of them (momentum; momentum over the root of squares) is off by as much of its own size.
//   An element is explained when w' is off by no more than
//       4 u * the largest of w, w' and d + what w was off by
//       + 4 |d| * sum over x of |x_b - x_a| / max(|x_a|, |x_b|)
//   with the larger of both sides' d, or A's largest where B's is more; no less than the rms of all
//   of A's, as a decay of the weight may hide how large an element's step was. All of it is read
//   element by element: an update that is wrong where the optimizer keeps the same in both runs is
//   not explained, nor are updates that add up, each below what a weight may be off by as a whole.
//   Precondition of it all: w and what is kept were within their bounds at the step before. Where
//   ranks hold copies that differ, each is explained by its own rank's; by nothing where it is not
//   known which those are.
//
//   Plain gradient descent keeps nothing, and means of squares do not tell which way an update
//   goes: there the gradient itself is one of the x, where it was recorded. With no x at all
//   nothing is explained.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compare/pass_diff.h"
#include "compare/step_before.h"

namespace tdump::compare {

// Not thread-safe. The pass outlives it.
class OptimizerUpdates {
 public:
  // `before`: asked for the same ranks one step earlier where a weight is outside its bound; empty:
  // not known. `pass`: its pairs are measured.
  OptimizerUpdates(AskBefore before, const PassDiff* pass) : ask_(std::move(before)), pass_(pass) {}

  // Whether that explains all elements of a parameter that is outside its bound: the gain
  // (compare/bounds.h) that this may have made, beyond that of w's own bound.
  std::optional<double> Explain(const Outcome& weight);

  // Whether a weight is outside its bound so that this is asked for.
  static bool IsOutside(const Outcome& weight);

 private:
  struct Copy {
    std::string arg;         // of the record
    int32_t rank_a, rank_b;  // that hold it; kAllRanks: not one alone
    const StepBefore::Entry* entry;
  };
  struct Parameter {  // at the step before
    std::vector<Copy> weights, kept;
    std::vector<Copy> gradients;  // each rank's last
  };
  void Find();
  // What is of this rank, of those that go by one name; null: not known.
  static const StepBefore::Entry* Own(const std::vector<Copy>& copies, const Copy& of);
  // The same of each number that is kept of the parameter.
  static std::vector<const StepBefore::Entry*> OwnStates(const Parameter& parameter, Copy of);
  // Whether what is kept tells which way the update goes: a mean of squares does not.
  static bool HasDirection(const Parameter& parameter);
  // Those of later micro-batches are what had been added up by then.
  static void AddGradient(const Copy& copy, std::vector<Copy>* gradients);

  AskBefore ask_;  // empty once it was asked
  const PassDiff* pass_;
  std::shared_ptr<const StepBefore> before_;
  std::unordered_map<std::string, Parameter> parameters_;
};

}  // namespace tdump::compare
