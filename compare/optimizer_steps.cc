#include "compare/optimizer_steps.h"

#include <algorithm>

#include "compare/roles.h"

namespace tdump::compare {
namespace {

// Steps of the learning rate differ by no more: two, and what several steps add up to.
constexpr double kAlike = 10;
// Of the weights, where few of them parted: a step of the learning rate is a small part.
constexpr double kSmallPart = 0.1;

bool AreSteps(const Metrics& m) {
  if (!m.numeric) return false;
  const bool most_alike = m.p50 > 0 && m.max_abs <= kAlike * m.p50;
  return most_alike || m.max_abs <= kSmallPart * std::min(m.rms_a, m.rms_b);
}

// What torch's optimizers call the sizes of gradients that they divide by.
bool IsOfSizes(std::string_view state) {
  return state.ends_with("avg_sq") || state == "square_avg" || state == "sum" ||
         state == "exp_inf" || state == "exp_avg" || state == "prev";
}

}  // namespace

void OptimizerSteps::AddState(const Row& row, int32_t rank, const Outcome& outcome) {
  const std::string parameter = ParameterOf(row.key);
  const std::string_view arg = row.key.arg;
  const std::string_view state = arg.substr(std::min(parameter.size() + 1, arg.size()));
  divides_ = divides_ || IsOfSizes(state);
  averages_ = averages_ || state == "momentum_buffer";
  const size_t after = arg.size() - parameter.size();
  if (row.name.size() <= after) return;  // it cannot be read any more
  Latest& latest = kept_[{rank, row.name.substr(0, row.name.size() - after)}];
  if (!latest[0] || latest[0]->step != row.step_b) {
    latest[1] = latest[0];
    latest[0] = Kept{.step = row.step_b};
  }
  latest[0]->equal = latest[0]->equal && outcome.comparison.verdict.bitwise == Answer::kSame;
}

bool OptimizerSteps::MayHaveMade(const Row& row, int32_t rank, const Outcome& outcome) const {
  const Verdict& v = outcome.comparison.verdict;
  if (row.key.role != Role::kParam || v.special == Answer::kDiffers) return false;
  if (const auto kept = kept_.find({rank, row.name}); kept != kept_.end()) {
    for (const std::optional<Kept>& at : kept->second) {
      if (at && at->step + 1 == row.step_b && at->equal) return false;
    }
  }
  return outcome.comparison.evidence != Evidence::kPayload || AreSteps(*outcome.comparison.metrics);
}

bool OptimizerSteps::MayDivide(std::string_view boundary) const {
  if (divides_) return true;
  return !averages_ && boundary.find("SGD") == std::string_view::npos;
}

}  // namespace tdump::compare
