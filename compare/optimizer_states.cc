#include "compare/optimizer_states.h"

#include <algorithm>
#include <functional>
#include <string>
#include <unordered_set>

#include "compare/roles.h"

namespace tdump::compare {
namespace {

bool Differs(const Outcome& outcome) {
  return outcome.of_optimizer && outcome.comparison.verdict.bitwise != Answer::kSame;
}

uint64_t IdOf(const Key& key) {
  const std::string text = key.root + "\n" + key.path + "\n" + ParameterOf(key);
  return std::hash<std::string>()(text) | 1;
}

}  // namespace

StateKind StateKindOf(std::string_view name) {
  if (name == "step") return StateKind::kNone;
  // "exp_avg_sq", "square_avg"; "sum" of Adagrad; of Adadelta those of its steps.
  const bool squares =
      name.find("sq") != std::string_view::npos || name == "sum" || name == "acc_delta";
  return squares ? StateKind::kOfSquares : StateKind::kOfGradients;
}

OptimizerStates::OptimizerStates(const PassDiff& pass) {
  if (std::none_of(pass.outcomes.begin(), pass.outcomes.end(), Differs)) return;
  std::unordered_set<uint64_t> numbers;  // parameters without dimensions
  std::unordered_set<uint64_t> divided;  // those whose momentum is made of steps
  for (uint32_t i = 0; i < pass.outcomes.size(); ++i) {
    const Outcome& outcome = pass.outcomes[i];
    if (!outcome.of_optimizer && outcome.role != Role::kParamGrad) continue;
    const auto record = pass.b->Get(outcome.ids.b);
    if (!record.ok()) continue;
    const Key& key = record->key;
    Place& place = places_[i];
    place.parameter = IdOf(key);
    place.number = record->sizes.empty();
    const std::string state = key.arg.substr(key.arg.find('.') + 1);
    if (outcome.of_optimizer)
      place.state = state == "momentum_buffer" ? StateKind::kOfSteps : StateKindOf(state);
    else if (place.number)
      numbers.insert(place.parameter);
    if (outcome.of_optimizer && state == "square_avg") divided.insert(place.parameter);
  }
  for (auto& [outcome, place] : places_) {
    if (place.state == StateKind::kOfSteps && !divided.contains(place.parameter))
      place.state = StateKind::kOfGradients;
  }
  std::erase_if(places_, [&](const auto& item) {
    const Place& place = item.second;
    return pass.outcomes[item.first].of_optimizer && place.number &&
           !numbers.contains(place.parameter);
  });
}

bool OptimizerStates::IsOfGradients(uint32_t outcome) const {
  const auto place = places_.find(outcome);
  return place != places_.end() && place->second.state != StateKind::kNone;
}

void OptimizerStates::Complete(uint32_t outcome, Sample* sample) const {
  const auto place = places_.find(outcome);
  if (place == places_.end()) return;
  sample->parameter = place->second.parameter;
  sample->state = place->second.state;
  if (sample->state != StateKind::kNone) sample->content = 0;
}

}  // namespace tdump::compare
