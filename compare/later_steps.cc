#include "compare/later_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "compare/judged_lines.h"
#include "compare/text.h"
#include "core/text.h"

namespace tdump::compare {
namespace {

bool MayBeRounding(const DiffReport& report, bool lower_precision) {
  const Origin& origin = *report.origin;
  if (origin.weights_unseen) return true;
  if (origin.killed) return false;
  const ParameterReport& p = report.parameters;
  const bool parted = p.drifted_names + p.buffers_drifted + p.following_names > 0;
  const InputReport& inputs = report.inputs;
  const bool other_inputs = inputs.equal + inputs.not_judged < inputs.compared;
  if (lower_precision || other_inputs) return parted;
  return origin.drifted && origin.may_be_steps && origin.may_divide;
}

}  // namespace

std::string JudgeAloneText(const DiffReport& report, std::optional<uint64_t> first_failing) {
  const Counts& c = report.counts;
  const bool is_alone = c.unpaired_a + c.unpaired_b > c.unpaired_allowed;
  if (report.overall != Overall::kDiffers || !report.origin || !first_failing || is_alone ||
      report.steps_aligned || report.inputs.first_differing_step)
    return "";
  const std::vector<uint64_t> not_judged = AllNotJudged(report);
  std::vector<uint64_t> of_a, of_b;
  for (const auto& [a, b] : report.steps) {
    if (b >= *first_failing || std::binary_search(not_judged.begin(), not_judged.end(), b))
      continue;
    of_a.push_back(a);
    of_b.push_back(b);
  }
  if (of_b.empty()) return "";
  const bool one = of_b.size() == 1;
  std::string steps = RangesText(of_a);
  if (of_a != of_b) steps += "=" + RangesText(of_b);
  return fmt::format(
      "{} agree{}, and from then on weights {} moved apart; if that is rounding, judge {} alone: "
      "--steps {}",
      StepsText(of_b), one ? "s" : "", report.origin->weights_unseen ? "may have" : "had",
      one ? "it" : "them", steps);
}

std::string LaterStepsHint(const DiffReport& report, std::optional<uint64_t> first_failing,
                           bool lower_precision) {
  return report.origin && MayBeRounding(report, lower_precision)
             ? JudgeAloneText(report, first_failing)
             : "";
}

}  // namespace tdump::compare
