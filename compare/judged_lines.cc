#include "compare/judged_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "compare/text.h"

namespace tdump::compare {
namespace {

// Paired ones that are not among these, which are sorted.
std::vector<uint64_t> OtherSteps(const DiffReport& report, const std::vector<uint64_t>& steps) {
  std::vector<uint64_t> others;
  for (const auto& [step_a, step_b] : report.steps) {
    if (!std::binary_search(steps.begin(), steps.end(), step_b)) others.push_back(step_b);
  }
  return others;
}

}  // namespace

std::vector<uint64_t> AllNotJudged(const DiffReport& report) {
  std::vector<uint64_t> all;
  for (const StepsNotJudged& of_one : report.steps_not_judged)
    all.insert(all.end(), of_one.steps.begin(), of_one.steps.end());
  std::sort(all.begin(), all.end());
  return all;
}

std::string WhyNotJudged(const DiffReport& report, const StepsNotJudged& steps) {
  using Why = StepsNotJudged::Why;
  switch (steps.why) {
    case Why::kAlone:
      return "no record has a partner";
    case Why::kUnreadable:
      return "what was recorded is damaged";
    case Why::kTooLittle:
      return "too little was kept on both sides; capture with level hash or full";
    case Why::kNoRecord:
      break;
  }
  const std::vector<uint64_t> with = OtherSteps(report, steps.steps);
  std::string text =
      fmt::format("only {} {} records", StepsText(with), with.size() == 1 ? "has" : "have");
  if (report.selects) text += " in --select";
  if (!report.across.empty())
    text += fmt::format(" that are compared along {}", Printable(report.across));
  // By default they are recorded once.
  const bool of_weights = report.counts.paired == report.parameters.pairs;
  if (of_weights || !report.across.empty())
    text += fmt::format("; to see drift capture weights at every step: {}", kCaptureWeights);
  return text;
}

std::string JudgedText(const DiffReport& report) {
  std::string text = StepsText(OtherSteps(report, AllNotJudged(report))) + " alone";
  for (const StepsNotJudged& steps : report.steps_not_judged)
    text += fmt::format("\n{}: nothing judged: {}", StepsText(steps.steps),
                        WhyNotJudged(report, steps));
  return text;
}

}  // namespace tdump::compare
