#include "compare/step_parts.h"

#include <algorithm>
#include <set>

#include "compare/optimizer_states.h"
#include "compare/roles.h"

namespace tdump::compare {

std::optional<StepParts::Place> StepParts::PlaceOf(const StepView& a, const StepView& b,
                                                   const RecordIds& ids) {
  const auto record = b.Get(ids.b);
  if (!record.ok()) return std::nullopt;
  return Place{.parameter = ParameterIn(record->key),
               .arg = record->key.arg,
               .rank_a = a.RankAt(ids.a, {}),
               .rank_b = b.RankAt(ids.b, {})};
}

StepParts::StepParts(const StepView* a, const StepView* b, std::vector<StepBefore::Entry> entries)
    : a_(a), b_(b), entries_(std::move(entries)) {
  for (const StepBefore::Entry& entry : entries_) {
    const auto record = b->Get(entry.ids.b);
    const auto place = PlaceOf(*a, *b, entry.ids);
    if (!record.ok() || !place) continue;
    Parameter& parameter = parameters_[place->parameter];
    const Copy copy = {*place, &entry};
    if (record->key.role == Role::kParam)
      parameter.weights.push_back(copy);
    else if (record->key.role == Role::kParamGrad)
      AddGradient(copy, &parameter.gradients);
    else if (StateKindOf(StateIn(place->arg)) != StateKind::kNone)
      parameter.kept.push_back(copy);
  }
}

const StepParts::Parameter* StepParts::ParameterAt(const Place& place) const {
  const auto parameter = parameters_.find(place.parameter);
  return parameter == parameters_.end() ? nullptr : &parameter->second;
}

const StepBefore::Entry* StepParts::Own(const std::vector<Copy>& copies, const Place& of) {
  const StepBefore::Entry* only = nullptr;
  const StepBefore::Entry* own = nullptr;
  size_t count = 0, owned = 0;
  for (const Copy& copy : copies) {
    if (copy.place.arg != of.arg) continue;
    ++count;
    only = copy.entry;
    if (copy.place.rank_a != of.rank_a || copy.place.rank_b != of.rank_b) continue;
    ++owned;
    own = copy.entry;
  }
  return count == 1 ? only : owned == 1 ? own : nullptr;
}

void StepParts::AddGradient(const Copy& copy, std::vector<Copy>* gradients) {
  for (Copy& known : *gradients) {
    if (known.place.arg != copy.place.arg || known.place.rank_a != copy.place.rank_a ||
        known.place.rank_b != copy.place.rank_b)
      continue;
    if (copy.entry->order >= known.entry->order) known = copy;
    return;
  }
  gradients->push_back(copy);
}

const StepBefore::Entry* StepParts::Find(const Place& place) const {
  const Parameter* parameter = ParameterAt(place);
  if (parameter == nullptr) return nullptr;
  const bool is_kept = place.arg.find('.') != std::string::npos;
  return Own(is_kept ? parameter->kept : parameter->weights, place);
}

bool StepParts::Has(const Place& place, const std::string& name) const {
  const Parameter* parameter = ParameterAt(place);
  return parameter != nullptr &&
         std::any_of(parameter->kept.begin(), parameter->kept.end(),
                     [&](const Copy& copy) { return StateIn(copy.place.arg) == name; });
}

std::vector<StepParts::Part> StepParts::KeptOf(const Place& place) const {
  const Parameter* parameter = ParameterAt(place);
  if (parameter == nullptr) return {};
  std::set<std::string> args;
  for (const Copy& copy : parameter->kept) args.insert(copy.place.arg);
  std::vector<Part> kept;
  Place of = place;
  for (const std::string& arg : args) {
    of.arg = arg;
    kept.push_back({StateIn(arg), Own(parameter->kept, of)});
  }
  return kept;
}

std::optional<StepParts::Part> StepParts::GradientOf(const Place& place) const {
  const Parameter* parameter = ParameterAt(place);
  if (parameter == nullptr || parameter->gradients.empty()) return std::nullopt;
  Place of = place;
  of.arg = place.arg.substr(0, place.arg.find('.'));
  return Part{"", Own(parameter->gradients, of)};
}

std::optional<std::vector<WeightUpdate::Part>> StepParts::Open(const std::vector<Part>& parts,
                                                               const BothSides& like,
                                                               bool may_be_outside) const {
  std::vector<WeightUpdate::Part> opened;
  for (const Part& part : parts) {
    if (part.entry == nullptr || !(part.entry->within || may_be_outside)) return std::nullopt;
    auto sides = Open(*part.entry);
    // One that is smaller (of Adafactor) tells nothing of elements.
    if (sides.ok() && (*sides)->shape() == like.shape())
      opened.push_back({part.name, *std::move(sides)});
  }
  return opened;
}

}  // namespace tdump::compare
