#include "compare/origin_finder.h"

#include <algorithm>

#include "compare/handed_on.h"
#include "compare/roles.h"

namespace tdump::compare {
namespace {

std::vector<Observed> Timeline(const PassDiff& pass) {
  std::vector<Observed> observed;
  observed.reserve(pass.outcomes.size());
  for (uint32_t i = 0; i < pass.outcomes.size(); ++i) {
    const Outcome& outcome = pass.outcomes[i];
    const bool tells = outcome.comparison.verdict.Judged() || outcome.fails;
    const bool is_event = !outcome.is_weight() || outcome.of_optimizer;
    const bool left_out = outcome.fails && outcome.allowed;
    if (!is_event || left_out || !tells || !outcome.unresolved->empty()) continue;
    observed.push_back({.order = outcome.order,
                        .call = outcome.call,
                        .output = outcome.is_output() || outcome.of_optimizer,
                        .root_input = outcome.root_input,
                        .fails = outcome.fails,
                        .bits_differ = outcome.bits_differ && !outcome.allowed,
                        .outcome = i,
                        .beyond_drift = IsBeyondDrift(pass, outcome)});
  }
  return observed;
}

// Weights that are a little off make no NaN, and nothing but gradients goes into their mean.
bool MayMake(const ParameterDifference& parameter, const Suspect& suspect) {
  return !suspect.of_gradients && !(suspect.special && parameter.drifted && parameter.same_special);
}

// The cause lies between two observations, and a call between them owns a parameter that differs.
void BlameParameter(const ParameterDifference& parameter, Origin* origin) {
  origin->kind = OriginKind::kParameter;
  if (origin->rank == kAllRanks) origin->rank = parameter.rank;
  origin->name = origin->path = parameter.path;
  origin->op.clear();
  NameParameter(parameter, origin);
}

void BlameWeightBefore(Suspect* suspect) {
  Origin& origin = suspect->origin;
  const std::optional<ParameterDifference>& before = suspect->outside_before;
  // What a weight before the operator makes goes into the operator.
  const bool by_own = suspect->adds_error && suspect->well_beyond && suspect->own_outside &&
                      before && before->drifted;
  if (before && !by_own && MayMake(*before, *suspect)) {
    BlameParameter(*before, &origin);
    origin.last_agreeing.reset();  // it may come after what used the parameter
  } else if (origin.kind == OriginKind::kInterval && !suspect->passed_by.empty() &&
             MayMake(suspect->passed_by.front(), *suspect)) {
    BlameParameter(suspect->passed_by.front(), &origin);
  }
}

// Whether the same begins on two ranks, as far as anything tells.
bool BeginAlike(const Suspect& x, const Suspect& y) {
  const auto blamed = [](const Suspect& suspect) {
    std::vector<std::string> names = {suspect.origin.parameter};
    if (suspect.outside_before) names.push_back("before " + suspect.outside_before->name);
    if (!suspect.passed_by.empty()) names.push_back("between " + suspect.passed_by.front().name);
    return names;
  };
  const Candidate &left = x.candidate, &right = y.candidate;
  return x.key_hash == y.key_hash && left.turn == right.turn &&
         left.first.kind == right.first.kind && left.first.certain() == right.first.certain() &&
         blamed(x) == blamed(y);
}

}  // namespace

// False: an earlier step has a suspect.
bool OriginFinder::Suspects::Enter(uint64_t next) {
  if (next == step) return true;
  if (!list.empty()) return false;
  step = next;
  ranks.clear();
  return true;
}

std::optional<FirstDifference> OriginFinder::AddPass(const PassDiff& pass, const PassPair& pair,
                                                     bool judged) {
  const PassFinding finding = Find(pass, pair.b.step);
  AddSuspect(pass, pair, finding.beyond_bound, &beyond_bound_,
             [](const Outcome& o) { return o.fails; });
  if (judged) KeepGrowth(pass, pair, finding.beyond_bound);
  AddSuspect(pass, pair, finding.bits, &bits_, [](const Outcome& o) { return o.bits_differ; });
  AddSuspect(pass, pair, finding.beyond_drift, &beyond_drift_,
             [](const Outcome& o) { return o.fails; });
  const auto fails = [](const Outcome& o) { return IsGradient(o.role) && o.fails && !o.allowed; };
  if (pair.b.rank != kAllRanks && std::any_of(pass.outcomes.begin(), pass.outcomes.end(), fails))
    gradients_fail_.emplace(pair.b.rank, pair.b.step);
  return finding.beyond_bound;
}

PassFinding OriginFinder::Find(const PassDiff& pass, uint64_t step) {
  std::vector<Observed> observed = Timeline(pass);
  const bool all_equal = std::none_of(observed.begin(), observed.end(),
                                      [](const Observed& o) { return o.bits_differ; });
  if (all_equal && !observed.empty() && !reproducible_from_) reproducible_from_ = step;
  return FindFirst(&observed);
}

void OriginFinder::KeepGrowth(const PassDiff& pass, const PassPair& pair,
                              const std::optional<FirstDifference>& first) {
  if (!first && (growth_of_ || !growth_.points.empty())) return;
  if (first) {
    const Candidate candidate = CandidateOf(pass, pair, *first, stages_);
    const Candidate both[] = {growth_of_.value_or(candidate), candidate};
    if (growth_of_ && ChooseOrigin(both) == 0) return;
    growth_of_ = candidate;
  }
  growth_ = GrowthOf(pass, pair);
}

template <class Differs>
void OriginFinder::AddSuspect(const PassDiff& pass, const PassPair& pair,
                              const std::optional<FirstDifference>& first, Suspects* suspects,
                              const Differs& differs) {
  if (!suspects->Enter(pair.b.step)) return;
  if (pair.b.rank != kAllRanks) suspects->ranks.emplace(pair.b.rank, stages_.Of(pair));
  if (!first) return;
  auto& keys = suspects->differing[pair.b.rank];
  for (const Outcome& outcome : pass.outcomes) {
    if (differs(outcome)) keys.insert(outcome.key_hash);
  }
  suspects->list.push_back(MakeSuspect(pass, pair, *first, *parameters_, stages_));
}

bool OriginFinder::DiffersBefore(uint64_t step, bool bits) const {
  const Suspects& suspects = bits ? bits_ : beyond_bound_;
  return !suspects.list.empty() && suspects.step < step;
}

// The operator's own parameter that differed by then, of several of one module that of which most
// is outside; null when there is none, and for what goes in, which it does not make.
const ParameterDifference* OriginFinder::OwnParameter(const Origin& origin) const {
  if (origin.kind == OriginKind::kInterval && origin.row->key.role == Role::kInput) return nullptr;
  const ParameterDifference* own = nullptr;
  for (const ParameterDifference& parameter : *parameters_) {
    if (parameter.step > origin.step || !SameRank(parameter.holder, origin.rank) ||
        !PathWithin(parameter.path, origin.path))
      continue;
    if (own == nullptr || (parameter.path == own->path && parameter.share > own->share))
      own = &parameter;
  }
  return own;
}

// Whether weights or gradients of another rank parted by then. What an optimizer keeps is made of
// the gradients of all ranks, and they are recorded before they are added up.
bool OriginFinder::AnotherRankParted(const Suspect& suspect) const {
  const PassRef& own = suspect.parting.pair.b;
  const bool weights = std::any_of(
      parameters_->begin(), parameters_->end(), [&](const ParameterDifference& parameter) {
        return parameter.step <= own.step && !SameRank(parameter.rank, own.rank);
      });
  return weights ||
         std::any_of(gradients_fail_.begin(), gradients_fail_.end(), [&](const auto& fail) {
           return fail.second <= own.step && !SameRank(fail.first, own.rank);
         });
}

// Activations that one rank was given, while another rank parts without such.
bool OriginFinder::MayBeHandedOn(const Suspects& suspects, const Suspect& suspect) const {
  if (suspect.candidate.first.kind != OriginKind::kInputs || suspect.of_numbers) return false;
  return std::any_of(suspects.list.begin(), suspects.list.end(), [](const Suspect& other) {
    return other.candidate.first.kind != OriginKind::kInputs;
  });
}

// Those of each rank, in order of ranks.
std::vector<size_t> OriginFinder::AllAlike(const Suspects& suspects, size_t chosen) {
  const Suspect& first = suspects.list[chosen];
  if (first.parting.pair.b.rank == kAllRanks) return {chosen};
  std::map<int32_t, size_t> by_rank = {{first.parting.pair.b.rank, chosen}};
  for (size_t i = 0; i < suspects.list.size(); ++i) {
    const Suspect& other = suspects.list[i];
    if (BeginAlike(other, first)) by_rank.emplace(other.parting.pair.b.rank, i);
  }
  std::vector<size_t> alike;
  for (const auto& [rank, i] : by_rank) alike.push_back(i);
  return alike;
}

// None: it is of that pass.
std::optional<PassPair> OriginFinder::GrowthPassOf(const Suspect& origin) const {
  const PassPair& pair = origin.parting.pair;
  const bool same = pair.b.rank == growth_.rank && pair.b.step == growth_.step;
  if (!growth_of_ || pair.b.rank == kAllRanks || same) return std::nullopt;
  return pair;
}

void OriginFinder::NameOwnParameter(Suspect* suspect) const {
  Origin& origin = suspect->origin;
  const ParameterDifference* own = OwnParameter(origin);
  if (own != nullptr && !MayMake(*own, *suspect)) own = nullptr;
  if (own != nullptr) {
    NameParameter(*own, &origin);
    if (origin.rank == kAllRanks) origin.rank = own->rank;  // every rank has the wrong sum
  }
  suspect->candidate.own_parameter = !origin.parameter.empty();
  suspect->own_within = own != nullptr && own->within;
  suspect->own_outside = own != nullptr && own->outside;
}

// On which other ranks the same differs. Ranks of another stage of a pipeline hold other operators,
// whatever they are called.
void OriginFinder::NameOtherRanks(const Suspects& suspects, Suspect* chosen) {
  Origin& origin = chosen->origin;
  const auto stage_of = [&](int32_t rank) {
    const auto found = suspects.ranks.find(rank);
    return found == suspects.ranks.end() ? std::nullopt : found->second;
  };
  for (const auto& [rank, stage] : suspects.ranks) {
    if (rank == origin.rank || stage != stage_of(origin.rank)) continue;
    const auto keys = suspects.differing.find(rank);
    const bool alike = keys != suspects.differing.end() && keys->second.contains(chosen->key_hash);
    (alike ? origin.ranks_alike : origin.ranks_agreeing).push_back(rank);
  }
}

std::optional<Suspect> OriginFinder::Choose(Suspects* suspects,
                                            std::vector<std::string>* notes) const {
  if (suspects->list.empty()) return std::nullopt;
  std::vector<Candidate> candidates;
  std::vector<Parting> partings;
  for (Suspect& suspect : suspects->list) {
    NameOwnParameter(&suspect);
    candidates.push_back(suspect.candidate);
    partings.push_back(suspect.parting);
  }
  const bool by_values = stages_.are_unknown() && partings.front().pair.b.rank != kAllRanks;
  const size_t likeliest = by_values
                               ? ChooseMaker(stages_.a(), stages_.b(), candidates, partings, notes)
                               : ChooseOrigin(candidates);
  // One rank may have been given what another one made.
  const bool may_be_given =
      by_values && suspects->list[likeliest].candidate.first.kind != OriginKind::kOperator;
  const std::vector<size_t> alike =
      may_be_given ? std::vector<size_t>{likeliest} : AllAlike(*suspects, likeliest);
  Suspect chosen = suspects->list[alike.front()];
  Origin& origin = chosen.origin;
  for (const size_t i : alike) {
    const int32_t rank = suspects->list[i].parting.pair.b.rank;
    if (rank != kAllRanks) origin.ranks.push_back(rank);
  }
  origin.may_be_handed_on = by_values && MayBeHandedOn(*suspects, chosen);
  if (origin.may_be_handed_on) origin.certain = false;
  BlameWeightBefore(&chosen);
  NameOtherRanks(*suspects, &chosen);
  return chosen;
}

OriginFinder::Choice OriginFinder::Choose() {
  Choice choice = ChooseFirst();
  std::vector<std::string> said;
  std::erase_if(beyond_drift_.list, [&](const Suspect& suspect) {
    return suspect.of_state && AnotherRankParted(suspect);
  });
  const std::optional<Suspect> beyond = Choose(&beyond_drift_, &said);
  if (!beyond || !choice.origin || !choice.origin->row) return choice;
  const Row &first = *choice.origin->row, &other = *beyond->origin.row;
  const bool same = first.step_b == other.step_b && first.rank_b == other.rank_b &&
                    ToText(first.key) == ToText(other.key);
  if (!same) choice.beyond_drift = beyond->origin;
  return choice;
}

OriginFinder::Choice OriginFinder::ChooseFirst() {
  Choice choice;
  const std::optional<Suspect> beyond = Choose(&beyond_bound_, &choice.notes);
  std::vector<std::string> of_bits;  // says the same
  std::optional<Suspect> bits = Choose(&bits_, beyond ? &of_bits : &choice.notes);
  if (beyond) choice.origin = beyond->origin;
  if (beyond) choice.growth_pass = GrowthPassOf(*beyond);
  if (!bits) return choice;
  if (!beyond) {
    choice.first_bits = bits->origin;
    return choice;
  }
  const bool same = beyond->candidate.step == bits->candidate.step &&
                    beyond->candidate.rank == bits->candidate.rank &&
                    beyond->key_hash == bits->key_hash;
  if (same) return choice;
  const bool reproducible = reproducible_from_ && *reproducible_from_ <= bits->candidate.step;
  // A weight within its bound is no cause of an error that a later operator adds by itself. Of what
  // the model was given no weight is: those of all its parts are its own.
  const bool by_parameter = bits->candidate.own_parameter &&
                            bits->candidate.first.kind == OriginKind::kOperator &&
                            !(bits->own_within && beyond->adds_error);
  if (by_parameter || reproducible) {
    bits->origin.by_bits = true;
    choice.origin = bits->origin;
    choice.growth_pass = GrowthPassOf(*bits);
  } else {
    choice.first_bits = bits->origin;
  }
  return choice;
}

}  // namespace tdump::compare
