#include "compare/job_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace tdump::compare {
namespace {

constexpr size_t kMostLayouts = 6;

// "step 3", "steps 0-6"; of B.
std::string JudgedSteps(const DiffReport& report) {
  std::vector<uint64_t> steps;
  for (const auto& [a, b] : report.steps) {
    if (b < report.inputs.first_differing_step.value_or(0)) steps.push_back(b);
  }
  if (steps.empty()) return "no step judged";
  return StepsText(steps) + " judged";
}

// "token ids", "input kwargs.mask".
std::string InputNames(const InputReport& inputs) {
  if (inputs.differing.empty()) return "token ids";
  std::set<std::string> names;
  for (const std::string& name : inputs.differing) {
    const std::string arg = name.substr(0, name.find(" of "));
    const bool tokens =
        arg.find("input_ids") != std::string::npos || arg.find("token") != std::string::npos;
    names.insert(tokens ? "token ids" : "input " + name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::string RankText(int32_t rank) {
  return rank == kAllRanks ? "all ranks" : fmt::format("rank {}", rank);
}

std::vector<int32_t> RanksOf(const DiffReport& report, bool a) {
  if (report.job) return a ? report.job->ranks_a : report.job->ranks_b;
  std::set<int32_t> ranks;  // one may have several partners
  for (const auto& [rank_a, rank_b] : report.ranks) ranks.insert(a ? rank_a : rank_b);
  return {ranks.begin(), ranks.end()};
}

std::string StepPairingText(const DiffReport& report) {
  if (!report.steps_aligned || report.steps.empty()) return "";
  const auto shift = [](const std::pair<uint64_t, uint64_t>& step) {
    return static_cast<int64_t>(step.second - step.first);
  };
  const int64_t first = shift(report.steps.front());
  const bool constant = std::all_of(report.steps.begin(), report.steps.end(),
                                    [&](const auto& step) { return shift(step) == first; });
  const std::string how = !constant    ? fmt::format("{} pairs", report.steps.size())
                          : first == 0 ? "B = A"
                          : first < 0  ? fmt::format("B = A - {}", -first)
                                       : fmt::format("B = A + {}", first);
  return fmt::format("{}, by equal integer inputs", how);
}

std::string LayoutText(const DiffReport& report) {
  std::vector<std::string> lines;
  if (!report.job) return "";
  for (const bool a : {true, false}) {
    const auto& how = a ? report.job->how_a : report.job->how_b;
    std::vector<std::pair<uint64_t, std::string>> counted;
    for (const auto& [layout, count] : how) counted.emplace_back(count, layout);
    std::stable_sort(counted.begin(), counted.end(),
                     [](const auto& x, const auto& y) { return x.first > y.first; });
    for (size_t i = 0; i < std::min(kMostLayouts, counted.size()); ++i)
      lines.push_back(fmt::format("{}: {} {}", a ? 'A' : 'B', CountText(counted[i].first),
                                  Printable(counted[i].second)));
    if (counted.size() > kMostLayouts)
      lines.push_back(fmt::format("{}: {} other layouts: --jsonl FILE", a ? 'A' : 'B',
                                  counted.size() - kMostLayouts));
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

std::string PartedText(const DiffReport& report) {
  return fmt::format("inputs differ: {} from step {} on, {}", InputNames(report.inputs),
                     *report.inputs.first_differing_step, JudgedSteps(report));
}

}  // namespace tdump::compare
