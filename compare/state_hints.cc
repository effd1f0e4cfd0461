#include "compare/state_hints.h"

#include <fmt/format.h>

#include "core/text.h"

namespace tdump::compare {

void StateHints::Add(const Outcome& outcome) {
  if (!outcome.of_optimizer) return;
  const std::optional<Explanation>& explanation = outcome.explanation;
  if (explanation && explanation->in_known) return;
  ++(outcome.comparison.evidence == Evidence::kPayload ? without_gradient_ : without_values_);
}

std::vector<std::string> StateHints::Notes() const {
  const auto note = [](uint64_t pairs, std::string_view why) {
    return fmt::format(
        "{} of what the optimizer keeps: {} with level full. --allow-failed '@state#.*[.]' lists "
        "them and does not count them",
        Plural(pairs, "pair"), why);
  };
  std::vector<std::string> notes;
  if (without_gradient_ > 0)
    notes.push_back(note(without_gradient_,
                         "no gradient was recorded that would tell whether rounding explains them; "
                         "capture role param_grad"));
  if (without_values_ > 0)
    notes.push_back(note(without_values_,
                         "their values were not kept on both sides, which would tell by how much "
                         "they differ; capture role state"));
  return notes;
}

}  // namespace tdump::compare
