#include "compare/state_hints.h"

#include <fmt/format.h>

#include "core/text.h"

namespace tdump::compare {

void StateHints::Add(const Outcome& outcome) {
  if (!outcome.of_optimizer) return;
  const std::optional<Explanation>& explanation = outcome.explanation;
  pairs_ += !explanation || !explanation->in_known;
}

std::string StateHints::Note() const {
  if (pairs_ == 0) return "";
  return fmt::format(
      "{} of what the optimizer keeps: no gradient was recorded that would tell whether rounding "
      "explains them; capture role param_grad with level full. --allow-failed '@state#.*[.]' lists "
      "them and does not count them",
      Plural(pairs_, "pair"));
}

}  // namespace tdump::compare
