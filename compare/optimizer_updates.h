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
//   goes: there the gradient itself is one of the x, where it was recorded; and of NAdam, which
//   adds it to the mean. With no x at all nothing is explained.
//
//   Where A's gradient cancels to next to nothing (the bias of keys) none of its steps is as large
//   as B's, which are made of rounding. B's d then counts up to what A's optimizer would make of
//   what B keeps, the rate as read off the other parameters (compare/step_rate.h), and w' may be
//   off by no more than that and A's own d.
//
//   A momentum of gradients over their sizes (RMSprop) is summed up as a weight is, of the gradient
//   and of all else that is kept in the same step: it is explained in the same way, and off by no
//   more than A's own d and A's largest. It was 0 before step 0; of a later step nothing is
//   explained where the one before is not known, or explains nothing as all in it is equal.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "compare/pass_diff.h"
#include "compare/step_before.h"
#include "compare/step_parts.h"
#include "compare/step_rate.h"
#include "compare/weight_update.h"

namespace tdump::compare {

// Not thread-safe. The pass outlives it.
class OptimizerUpdates {
 public:
  // `before`: asked for the same ranks one step earlier where a weight is outside its bound; empty:
  // not known. `is_first_step`: no step was before. `pass`: its pairs are measured.
  OptimizerUpdates(AskBefore before, bool is_first_step, const PassDiff* pass)
      : ask_(std::move(before)), is_first_step_(is_first_step), pass_(pass) {}

  // Whether that explains all elements of a parameter that is outside its bound: the gain
  // (compare/bounds.h) that this may have made, beyond that of w's own bound.
  std::optional<double> Explain(const Outcome& weight);

  // The same of a momentum of steps (StateKind::kOfSteps) which is outside its bound, once all else
  // that is kept was judged: whether its step, of this pass, explains all of its elements.
  bool ExplainsMomentum(const Outcome& momentum);

  // Whether a weight is outside its bound so that this is asked for.
  static bool IsOutside(const Outcome& weight);
  // Whether this is so of a weight, or of a momentum, which may be one of steps.
  static bool MayAsk(const PassDiff& pass);

 private:
  bool Asked();  // whether the step before is known
  // None where anything that the update was made of is not known, or is outside its bound while
  // that does not count. Precondition: Asked.
  std::optional<WeightUpdate> UpdateOf(const Outcome& weight, bool may_be_outside) const;
  // Whether the gradient itself goes into the update: nothing that is kept tells which way it goes
  // (a mean of squares does not), or NAdam adds it to the mean.
  static bool NeedsGradient(const StepParts& parts, const StepParts::Place& place);
  const StepRate& Rate();
  const StepParts& PartsNow();

  AskBefore ask_;  // empty once it was asked
  const bool is_first_step_;
  const PassDiff* pass_;
  std::shared_ptr<const StepBefore> before_;
  std::optional<StepParts> parts_before_, parts_now_;  // once they were asked for
  std::optional<StepRate> rate_;
};

}  // namespace tdump::compare
