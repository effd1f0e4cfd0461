#include "compare/steps_judged.h"

#include <algorithm>

namespace tdump::compare {

void StepsJudged::Raise(uint64_t step, Found found) {
  Found& known = steps_[step];
  known = std::max(known, found);
}

void StepsJudged::AddPass(uint64_t step, const PassDiff& pass) {
  const bool alone = !pass.only_a.empty() || !pass.only_b.empty();
  Raise(step, !pass.damage.empty() ? Found::kUnreadable : alone ? Found::kAlone : Found::kNothing);
}

void StepsJudged::Add(uint64_t step, const Outcome& outcome) {
  if (!outcome.error->empty()) return;  // damage of its pass
  const bool judged = outcome.fails || outcome.comparison.verdict.Judged();
  Raise(step, judged ? Found::kJudged : Found::kTooLittle);
}

std::vector<StepsNotJudged> StepsJudged::NotJudged() const {
  using Why = StepsNotJudged::Why;
  constexpr std::pair<Found, Why> kWhy[] = {{Found::kNothing, Why::kNoRecord},
                                            {Found::kAlone, Why::kAlone},
                                            {Found::kUnreadable, Why::kUnreadable},
                                            {Found::kTooLittle, Why::kTooLittle}};
  std::vector<StepsNotJudged> all;
  const bool any = std::any_of(steps_.begin(), steps_.end(),
                               [](const auto& step) { return step.second == Found::kJudged; });
  if (!any) return all;
  for (const auto& [found, why] : kWhy) {
    StepsNotJudged of_one{.why = why, .steps = {}};
    for (const auto& [step, known] : steps_) {
      if (known == found) of_one.steps.push_back(step);
    }
    if (!of_one.steps.empty()) all.push_back(std::move(of_one));
  }
  return all;
}

}  // namespace tdump::compare
