#include "compare/optimizer_updates.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "compare/optimizer_states.h"

namespace tdump::compare {
namespace {

double ShareOff(double a, double b) {
  return a == b ? 0 : std::abs(b - a) / std::max(std::abs(a), std::abs(b));
}

// Steps of A, from one recorded weight to the next. Finite ones.
struct Steps {
  double largest = 0, rms = 0;
};

// Error: a payload's.
Result<Steps> StepsOfA(const WeightUpdate& update) {
  Steps steps;
  double squares = 0;
  TDUMP_RETURN_IF_ERROR(update.ForEachTile(WeightUpdate::Of::kWeightsOfA, [&](uint64_t i) {
    const double step = std::abs(update.now->a[i] - update.BeforeA(i));
    if (!std::isfinite(step)) return true;
    steps.largest = std::max(steps.largest, step);
    squares += step * step;
    return true;
  }));
  steps.rms = std::sqrt(squares / static_cast<double>(update.elements()));
  return steps;
}

struct Explained {
  std::optional<double> gain;  // none: not all elements are
  bool by_steps = true;        // all are, but for those of which B's step is larger than all of A's
};

// `made`: the largest step that A's optimizer would make of what B keeps, where that counts.
// `capped`: no element is off by more than the larger of that and A's largest, and A's own. Error:
// a payload's.
Result<Explained> ExplainElements(const WeightUpdate& update, bool capped,
                                  const std::optional<double>& made = {}) {
  TDUMP_ASSIGN_OR_RETURN(const Steps steps, StepsOfA(update));
  const double largest = std::max(steps.largest, made.value_or(0));
  double products = 0, squares = 0;  // of what is explained with A; of A
  bool within = true, by_steps = true;
  TDUMP_RETURN_IF_ERROR(update.ForEachTile(WeightUpdate::Of::kBoth, [&](uint64_t i) {
    const double a = update.now->a[i], b = update.now->b[i];
    if (a == b || (std::isnan(a) && std::isnan(b))) {  // of NaN and infinities nothing is told
      if (std::isfinite(a)) squares += a * a;
      return true;
    }
    const double was_a = update.BeforeA(i), was_b = update.BeforeB(i);
    double share = 0;
    for (const WeightUpdate::Part& part : update.parts)
      share += ShareOff(part.sides->a[i], part.sides->b[i]);
    const double step_a = std::abs(a - was_a), step_b = std::abs(b - was_b);
    const double step = std::max(step_a, std::min(step_b, largest));
    const double own = update.relative *
                       std::max({std::abs(a), std::abs(b), step, std::abs(was_a), std::abs(was_b)});
    double by_share = kBoundFactor * std::max(step, steps.rms) * share;
    if (capped) by_share = std::min(by_share, step_a + largest);
    const double more = std::abs(was_b - was_a) + by_share;
    squares += a * a;
    const double error = std::abs(b - a);
    products += std::abs(a) * std::min(error, more);
    if (error <= own + more) return true;
    within = false;  // also of what NaN would explain
    by_steps = step_b > largest;
    return by_steps;
  }));
  if (!within) return Explained{.gain = std::nullopt, .by_steps = by_steps};
  return Explained{.gain = squares > 0 ? products / squares : 0};
}

bool HasElementsOutside(const Outcome& outcome) {
  const Comparison& comparison = outcome.comparison;
  return outcome.is_compared() && comparison.evidence == Evidence::kPayload &&
         comparison.verdict.tolerance == Answer::kDiffers &&
         comparison.verdict.special != Answer::kDiffers && comparison.metrics->outside() > 0;
}

}  // namespace

bool OptimizerUpdates::IsOutside(const Outcome& weight) {
  return weight.role == Role::kParam && HasElementsOutside(weight);
}

bool OptimizerUpdates::MayAsk(const PassDiff& pass) {
  return std::any_of(pass.outcomes.begin(), pass.outcomes.end(), [&](const Outcome& outcome) {
    if (!outcome.of_optimizer) return IsOutside(outcome);
    if (!HasElementsOutside(outcome)) return false;
    const auto record = pass.b->Get(outcome.ids.b);
    return record.ok() && StateIn(record->key.arg) == "momentum_buffer";
  });
}

bool OptimizerUpdates::Asked() {
  if (const AskBefore ask = std::exchange(ask_, {})) {
    before_ = ask();
    if (before_) parts_before_.emplace(before_->a, before_->b, before_->entries);
  }
  return before_ != nullptr;
}

bool OptimizerUpdates::NeedsGradient(const StepParts& parts, const StepParts::Place& place) {
  const std::vector<StepParts::Part> kept = parts.KeptOf(place);
  const bool has_direction = std::any_of(kept.begin(), kept.end(), [](const StepParts::Part& part) {
    return StateKindOf(part.name) == StateKind::kOfGradients;
  });
  return !has_direction || parts.Has(place, "mu_product");
}

std::optional<WeightUpdate> OptimizerUpdates::UpdateOf(const Outcome& weight,
                                                       bool may_be_outside) const {
  const StepParts& parts = *parts_before_;
  const auto place = StepParts::PlaceOf(*pass_->a, *pass_->b, weight.ids);
  if (!place) return std::nullopt;
  const StepBefore::Entry* was = parts.Find(*place);
  if (was == nullptr || !(was->within || may_be_outside)) return std::nullopt;
  std::vector<StepParts::Part> made_of = parts.KeptOf(*place);
  const auto gradient = parts.GradientOf(*place);
  if (gradient && NeedsGradient(parts, *place)) made_of.push_back(*gradient);
  auto now = BothSides::Open(*pass_->a, *pass_->b, weight.ids);
  auto before = parts.Open(*was);
  if (made_of.empty() || !now.ok() || !before.ok() || (*now)->shape() != (*before)->shape())
    return std::nullopt;
  auto opened = parts.Open(made_of, **now, may_be_outside);
  if (!opened) return std::nullopt;
  return WeightUpdate{.now = *std::move(now),
                      .before = *std::move(before),
                      .parts = *std::move(opened),
                      .relative = weight.local().bound.relative};
}

const StepRate& OptimizerUpdates::Rate() {
  if (rate_) return *rate_;
  rate_.emplace();
  for (const Outcome& weight : pass_->outcomes) {
    if (weight.role != Role::kParam || !weight.is_compared()) continue;
    // One that cannot be read tells nothing.
    if (const auto update = UpdateOf(weight, true)) (void)rate_->Add(*update);
  }
  rate_->Finish();
  return *rate_;
}

std::optional<double> OptimizerUpdates::Explain(const Outcome& weight) {
  if (!IsOutside(weight) || !Asked()) return std::nullopt;
  const std::optional<WeightUpdate> update = UpdateOf(weight, false);
  if (!update) return std::nullopt;
  Result<Explained> explained = ExplainElements(*update, false);
  if (explained.ok() && !explained->gain && explained->by_steps) {
    const auto made = Rate().LargestOfB(*update);
    if (made.ok() && *made) explained = ExplainElements(*update, true, **made);
  }
  return explained.ok() ? explained->gain : std::nullopt;
}

const StepParts& OptimizerUpdates::PartsNow() {
  if (parts_now_) return *parts_now_;
  std::vector<StepBefore::Entry> entries;
  for (const Outcome& outcome : pass_->outcomes) {
    if (StepBefore::Has(outcome.role, outcome.of_optimizer))
      entries.push_back({outcome.ids, outcome.order, StepBefore::IsWithin(outcome)});
  }
  return parts_now_.emplace(pass_->a.get(), pass_->b.get(), std::move(entries));
}

bool OptimizerUpdates::ExplainsMomentum(const Outcome& momentum) {
  // Where what was before is not known, another process may know it.
  if (!is_first_step_ && !Asked()) return false;
  const StepParts& parts = PartsNow();
  const auto place = StepParts::PlaceOf(*pass_->a, *pass_->b, momentum.ids);
  const auto gradient = place ? parts.GradientOf(*place) : std::nullopt;
  if (!gradient) return false;
  std::vector<StepParts::Part> made_of = {*gradient};
  for (const StepParts::Part& part : parts.KeptOf(*place))
    if (part.name != StateIn(place->arg)) made_of.push_back(part);
  auto now = BothSides::Open(*pass_->a, *pass_->b, momentum.ids);
  if (!now.ok()) return false;
  auto opened = parts.Open(made_of, **now, false);
  if (!opened) return false;
  WeightUpdate update = {.now = *std::move(now),
                         .before = nullptr,
                         .parts = *std::move(opened),
                         .relative = momentum.local().bound.relative};
  if (!is_first_step_) {
    const StepBefore::Entry* was = parts_before_->Find(*place);
    if (was == nullptr || !was->within) return false;
    auto before = parts_before_->Open(*was);
    if (!before.ok() || (*before)->shape() != update.now->shape()) return false;
    update.before = *std::move(before);
  }
  const Result<Explained> explained = ExplainElements(update, true);
  return explained.ok() && explained->gain;
}

}  // namespace tdump::compare
