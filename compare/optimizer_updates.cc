#include "compare/optimizer_updates.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include "compare/element.h"
#include "compare/optimizer_states.h"
#include "compare/pair_side.h"
#include "compare/roles.h"

namespace tdump::compare {
namespace {

constexpr uint64_t kTileElements = 4096;

// Both sides of a pair, tile by tile.
class BothSides {
 public:
  // Error: one cannot be read, or holds no real numbers.
  static Result<std::unique_ptr<BothSides>> Open(const StepView& view_a, const StepView& view_b,
                                                 const RecordIds& ids) {
    auto both = std::make_unique<BothSides>();
    TDUMP_ASSIGN_OR_RETURN(both->record_a_, view_a.Get(ids.a));
    TDUMP_ASSIGN_OR_RETURN(both->record_b_, view_b.Get(ids.b));
    for (const io::Record* record : {&both->record_a_, &both->record_b_}) {
      if (!record->payload || FormatOf(record->dtype).kind != NumberKind::kFloat ||
          ElementShape(*record) != ElementShape(both->record_a_))
        return InvalidArgument("no real numbers of one shape");
    }
    TDUMP_ASSIGN_OR_RETURN(ReadBytes a, view_a.Open(both->record_a_));
    TDUMP_ASSIGN_OR_RETURN(ReadBytes b, view_b.Open(both->record_b_));
    both->sides_.reserve(2);
    both->sides_.emplace_back(both->record_a_, std::move(a), std::vector<bool>());
    both->sides_.emplace_back(both->record_b_, std::move(b), std::vector<bool>());
    return both;
  }
  std::vector<uint64_t> shape() const { return ElementShape(record_a_); }
  uint64_t elements() const { return sides_.front().elements(); }
  Status Load(uint64_t first, uint64_t count) {
    for (PairSide& side : sides_) TDUMP_RETURN_IF_ERROR(side.Load(first, count));
    a = sides_[0].Floats(0, count);
    b = sides_[1].Floats(0, count);
    return {};
  }

  std::span<const double> a, b;  // of the tile

 private:
  io::Record record_a_, record_b_;
  std::vector<PairSide> sides_;
};

double ShareOff(double a, double b) {
  return a == b ? 0 : std::abs(b - a) / std::max(std::abs(a), std::abs(b));
}

struct Update {
  std::unique_ptr<BothSides> now, before;
  std::vector<std::unique_ptr<BothSides>> kept;
  double relative = 0;  // that the roundings of one update explain, of the largest number in it
};

// Steps of A, from one recorded weight to the next. Finite ones.
struct Steps {
  double largest = 0, rms = 0;
};

// Error: a payload's.
Result<Steps> StepsOfA(Update* update) {
  Steps steps;
  double squares = 0;
  for (uint64_t first = 0; first < update->now->elements(); first += kTileElements) {
    const uint64_t count = std::min(kTileElements, update->now->elements() - first);
    TDUMP_RETURN_IF_ERROR(update->now->Load(first, count));
    TDUMP_RETURN_IF_ERROR(update->before->Load(first, count));
    for (uint64_t i = 0; i < count; ++i) {
      const double step = std::abs(update->now->a[i] - update->before->a[i]);
      if (!std::isfinite(step)) continue;
      steps.largest = std::max(steps.largest, step);
      squares += step * step;
    }
  }
  steps.rms = std::sqrt(squares / static_cast<double>(update->now->elements()));
  return steps;
}

// The gain that explains all elements. Error: a payload's.
Result<std::optional<double>> ExplainedGain(Update* update) {
  TDUMP_ASSIGN_OR_RETURN(const Steps steps, StepsOfA(update));
  BothSides &now = *update->now, &before = *update->before;
  double products = 0, squares = 0;  // of what is explained with A; of A
  for (uint64_t first = 0; first < now.elements(); first += kTileElements) {
    const uint64_t count = std::min(kTileElements, now.elements() - first);
    TDUMP_RETURN_IF_ERROR(now.Load(first, count));
    TDUMP_RETURN_IF_ERROR(before.Load(first, count));
    for (const auto& kept : update->kept) TDUMP_RETURN_IF_ERROR(kept->Load(first, count));
    for (uint64_t i = 0; i < count; ++i) {
      const double a = now.a[i], b = now.b[i];
      double share = 0;
      for (const auto& kept : update->kept) share += ShareOff(kept->a[i], kept->b[i]);
      const double step_b = std::min(std::abs(b - before.b[i]), steps.largest);
      const double step = std::max(std::abs(a - before.a[i]), step_b);
      const double own =
          update->relative *
          std::max({std::abs(a), std::abs(b), step, std::abs(before.a[i]), std::abs(before.b[i])});
      const double more =
          std::abs(before.b[i] - before.a[i]) + kBoundFactor * std::max(step, steps.rms) * share;
      if (a == b || (std::isnan(a) && std::isnan(b))) {  // of NaN and infinities nothing is told
        if (std::isfinite(a)) squares += a * a;
        continue;
      }
      squares += a * a;
      const double error = std::abs(b - a);
      if (!(error <= own + more)) return std::optional<double>();  // nor what NaN would explain
      products += std::abs(a) * std::min(error, more);
    }
  }
  return std::optional(squares > 0 ? products / squares : 0);
}

}  // namespace

bool OptimizerUpdates::IsOutside(const Outcome& weight) {
  const Comparison& comparison = weight.comparison;
  return weight.role == Role::kParam && weight.is_compared() &&
         comparison.evidence == Evidence::kPayload &&
         comparison.verdict.tolerance == Answer::kDiffers &&
         comparison.verdict.special != Answer::kDiffers && comparison.metrics->outside() > 0;
}

void OptimizerUpdates::Find() {
  for (const StepBefore::Entry& entry : before_->entries) {
    const auto record = before_->b->Get(entry.ids.b);
    if (!record.ok()) continue;
    const std::string& arg = record->key.arg;
    const Copy copy = {arg, before_->a->RankAt(entry.ids.a, {}),
                       before_->b->RankAt(entry.ids.b, {}), &entry};
    if (record->key.role == Role::kParam)
      parameters_[ParameterIn(record->key)].weights.push_back(copy);
    else if (record->key.role == Role::kParamGrad)
      AddGradient(copy, &parameters_[ParameterIn(record->key)].gradients);
    else if (StateKindOf(arg.substr(arg.find('.') + 1)) != StateKind::kNone)
      parameters_[ParameterIn(record->key)].kept.push_back(copy);
  }
}

const StepBefore::Entry* OptimizerUpdates::Own(const std::vector<Copy>& copies, const Copy& of) {
  const StepBefore::Entry* only = nullptr;
  const StepBefore::Entry* own = nullptr;
  size_t count = 0, owned = 0;
  for (const Copy& copy : copies) {
    if (copy.arg != of.arg) continue;
    ++count;
    only = copy.entry;
    if (copy.rank_a != of.rank_a || copy.rank_b != of.rank_b) continue;
    ++owned;
    own = copy.entry;
  }
  return count == 1 ? only : owned == 1 ? own : nullptr;
}

std::vector<const StepBefore::Entry*> OptimizerUpdates::OwnStates(const Parameter& parameter,
                                                                  Copy of) {
  std::set<std::string> args;
  for (const Copy& copy : parameter.kept) args.insert(copy.arg);
  std::vector<const StepBefore::Entry*> kept;
  for (const std::string& arg : args) {
    of.arg = arg;
    kept.push_back(Own(parameter.kept, of));
  }
  return kept;
}

bool OptimizerUpdates::HasDirection(const Parameter& parameter) {
  return std::any_of(parameter.kept.begin(), parameter.kept.end(), [](const Copy& copy) {
    return StateKindOf(copy.arg.substr(copy.arg.find('.') + 1)) == StateKind::kOfGradients;
  });
}

void OptimizerUpdates::AddGradient(const Copy& copy, std::vector<Copy>* gradients) {
  for (Copy& known : *gradients) {
    if (known.arg != copy.arg || known.rank_a != copy.rank_a || known.rank_b != copy.rank_b)
      continue;
    if (copy.entry->order >= known.entry->order) known = copy;
    return;
  }
  gradients->push_back(copy);
}

std::optional<double> OptimizerUpdates::Explain(const Outcome& weight) {
  if (!IsOutside(weight)) return std::nullopt;
  if (const AskBefore ask = std::exchange(ask_, {})) {
    before_ = ask();
    if (before_) Find();
  }
  if (!before_) return std::nullopt;
  const auto record = pass_->b->Get(weight.ids.b);
  const auto parameter =
      record.ok() ? parameters_.find(ParameterIn(record->key)) : parameters_.end();
  if (parameter == parameters_.end()) return std::nullopt;
  const Parameter& known = parameter->second;
  const Copy of = {record->key.arg, pass_->a->RankAt(weight.ids.a, {}),
                   pass_->b->RankAt(weight.ids.b, {}), nullptr};
  const StepBefore::Entry* was = Own(known.weights, of);
  std::vector<const StepBefore::Entry*> kept = OwnStates(known, of);
  if (!HasDirection(known) && !known.gradients.empty()) kept.push_back(Own(known.gradients, of));
  const auto is_within = [](const StepBefore::Entry* entry) {
    return entry != nullptr && entry->within;
  };
  if (kept.empty() || !is_within(was) || !std::all_of(kept.begin(), kept.end(), is_within))
    return std::nullopt;
  Update update;
  update.relative = weight.local().bound.relative;
  auto now = BothSides::Open(*pass_->a, *pass_->b, weight.ids);
  auto before = BothSides::Open(*before_->a, *before_->b, was->ids);
  if (!now.ok() || !before.ok() || (*now)->shape() != (*before)->shape()) return std::nullopt;
  for (const StepBefore::Entry* state : kept) {
    auto sides = BothSides::Open(*before_->a, *before_->b, state->ids);
    // One that is smaller (of Adafactor) tells nothing of elements.
    if (sides.ok() && (*sides)->shape() == (*now)->shape())
      update.kept.push_back(*std::move(sides));
  }
  update.now = *std::move(now);
  update.before = *std::move(before);
  const Result<std::optional<double>> gain = ExplainedGain(&update);
  return gain.ok() ? *gain : std::nullopt;
}

}  // namespace tdump::compare
