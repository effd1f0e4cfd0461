#include "compare/step_before.h"

#include <algorithm>
#include <utility>

#include "compare/pass_diff.h"

namespace tdump::compare {

bool MayExplainUpdates(const PassDiff& pass) {
  return std::any_of(pass.outcomes.begin(), pass.outcomes.end(), [](const Outcome& outcome) {
    return (outcome.of_optimizer || outcome.role == Role::kParamGrad) &&
           outcome.comparison.verdict.bitwise == Answer::kDiffers;
  });
}

bool StepBefore::IsWithin(const Outcome& outcome) {
  const Verdict& verdict = outcome.comparison.verdict;
  return outcome.is_compared() &&
         (verdict.bitwise == Answer::kSame ||
          (outcome.comparison.evidence == Evidence::kPayload &&
           verdict.tolerance == Answer::kSame && verdict.special != Answer::kDiffers));
}

std::shared_ptr<const StepBefore> StepBefore::Of(std::shared_ptr<const PassDiff> pass) {
  if (!MayExplainUpdates(*pass)) return nullptr;
  auto step = std::make_shared<StepBefore>();
  step->a = pass->a.get();
  step->b = pass->b.get();
  for (const Outcome& outcome : pass->outcomes) {
    if (Has(outcome.role, outcome.of_optimizer))
      step->entries.push_back({outcome.ids, outcome.order, IsWithin(outcome)});
  }
  step->owner = std::move(pass);
  return step;
}

}  // namespace tdump::compare
