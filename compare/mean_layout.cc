#include "compare/mean_layout.h"

#include <algorithm>
#include <set>

namespace tdump::compare {
namespace {

constexpr double kMeanAgrees = 0.01;
constexpr double kMuchBetter = 0.1;  // of the best candidate's error

// Numbers of places that a mean in the place of the plan's sum may have.
std::set<uint64_t> TimesOf(const UnshardPlan& plan) {
  std::set<uint64_t> times(plan.partial_places.begin(), plan.partial_places.end());
  times.insert(plan.summands.size());
  times.erase(1);
  return times;
}

}  // namespace

std::string DimsOfMean(const UnshardPlan& plan, uint64_t times) {
  Dims dims = plan.dims;
  std::vector<std::string> all, fitting;
  uint64_t places = 1;
  for (size_t i = 0; i < plan.partial_places.size(); ++i) {
    const std::string& axis = dims.partial[i];
    if (dims.IsMean(axis) || plan.partial_places[i] == 1) continue;
    all.push_back(axis);
    places *= plan.partial_places[i];
    if (plan.partial_places[i] == times) fitting.push_back(axis);
  }
  const auto batch = std::find_if(fitting.begin(), fitting.end(), [](const std::string& axis) {
    return axis == "dp" || axis == "fsdp";
  });
  if (batch != fitting.end())
    dims.mean.push_back(*batch);
  else if (!fitting.empty())
    dims.mean.push_back(fitting.back());
  else if (!all.empty() && places == times)
    dims.mean.insert(dims.mean.end(), all.begin(), all.end());
  else
    return "";
  if (dims.SplitAxes().empty()) {  // what the dimensions are called says nothing
    dims.dims.clear();
    dims.ellipsis = 0;
  }
  return dims.ToText();
}

std::string FindMean(const std::vector<LayoutCandidate>& candidates, const CandidateError& error,
                     double best_error) {
  const double agrees = std::min(kMeanAgrees, kMuchBetter * best_error);
  for (const LayoutCandidate& candidate : candidates) {
    if (candidate.plan.summands.size() < 2) continue;
    for (const uint64_t times : TimesOf(candidate.plan)) {
      LayoutCandidate mean = candidate;
      mean.plan.divisor = times;
      const auto measured = error(mean);
      if (measured.ok() && *measured <= agrees) return DimsOfMean(candidate.plan, times);
    }
  }
  return "";
}

}  // namespace tdump::compare
