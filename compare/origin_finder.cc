#include "compare/origin_finder.h"

#include <algorithm>

#include "compare/element.h"
#include "compare/job_time.h"
#include "compare/roles.h"

namespace tdump::compare {
namespace {

// The gradients that what an optimizer keeps is made of.
std::vector<Row> GradientsOf(const PassDiff& pass, const PassPair& pair, const Outcome& outcome) {
  std::vector<Row> gradients;
  const auto state = pass.b->Get(outcome.ids.b);
  for (const Outcome& other : pass.outcomes) {
    if (!state.ok() || other.role != Role::kParamGrad || other.path != outcome.path) continue;
    Row row = MakeRow(pass, pair, other);
    if (row.key.arg == ParameterOf(state->key)) gradients.push_back(std::move(row));
  }
  return gradients;
}

// The inputs of the call that `outcome` came out of.
std::vector<Row> InputsOf(const PassDiff& pass, const PassPair& pair, const Outcome& outcome) {
  std::vector<Row> inputs;
  if (outcome.of_optimizer) return GradientsOf(pass, pair, outcome);
  if (!outcome.is_output()) return inputs;
  for (const Outcome& other : pass.outcomes) {
    if (other.call == outcome.call && !other.is_output() && !other.is_weight())
      inputs.push_back(MakeRow(pass, pair, other));
  }
  return inputs;
}

// The operator that an observation belongs to: of a tap, the one it stands in.
void NameOperator(const PassDiff& pass, const Outcome& outcome, Origin* origin) {
  const Key& key = origin->row->key;
  std::string root = key.root;
  origin->path = key.path;
  origin->op = key.op;
  const auto call = pass.calls.find(outcome.call);
  if (origin->row->kind == OperatorKind::kTap && call != pass.calls.end()) {
    root = call->second.root;
    origin->path = call->second.path;
    origin->op = call->second.op;
  }
  origin->name = PlainName(root, origin->path, origin->op);
}

// The cause lies between two observations, and a call between them owns a parameter that differs.
void BlameParameter(const ParameterDifference& parameter, Origin* origin) {
  origin->kind = OriginKind::kParameter;
  if (origin->rank == kAllRanks) origin->rank = parameter.rank;
  origin->name = origin->path = parameter.path;
  origin->op.clear();
  NameParameter(parameter, origin);
}

// Whether what is known of one rank is about the other: where ranks are put together, of any.
bool SameRank(int32_t x, int32_t y) { return x == y || x == kAllRanks || y == kAllRanks; }

std::optional<Summary> SummaryIn(const StepView& view, uint64_t id) {
  const auto record = view.Get(id);
  return record.ok() ? view.SummaryOf(*record) : std::nullopt;
}

// Whether two pairs of tensors have the same values, by hash or, where there is none, so alike that
// they are taken for one: an operator was given the parameter as an argument.
bool HaveTheSameValues(const PassDiff& pass, const Outcome& x, const Outcome& y) {
  const auto same_hash = [&](const StepView& view, uint64_t i, uint64_t j) -> std::optional<bool> {
    const auto one = view.Get(i), other = view.Get(j);
    if (!one.ok() || !other.ok() || !one->hash || !other->hash) return std::nullopt;
    return *one->hash == *other->hash && one->sizes == other->sizes;
  };
  const auto same_a = same_hash(*pass.a, x.ids.a, y.ids.a);
  const auto same_b = same_hash(*pass.b, x.ids.b, y.ids.b);
  if ((same_a && !*same_a) || (same_b && !*same_b)) return false;
  if (same_a && same_b) return true;
  if (x.comparison.evidence != y.comparison.evidence) return false;
  if (x.comparison.evidence == Evidence::kStatistics) {
    const auto alike = [](const StepView& view, uint64_t i, uint64_t j) {
      const auto one = SummaryIn(view, i);
      return one && one->max && one == SummaryIn(view, j);
    };
    return (same_a || alike(*pass.a, x.ids.a, y.ids.a)) &&
           (same_b || alike(*pass.b, x.ids.b, y.ids.b));
  }
  if (x.comparison.evidence != Evidence::kPayload) return false;
  const Metrics &m = *x.comparison.metrics, &n = *y.comparison.metrics;
  return m.numeric && n.numeric && m.elements == n.elements && m.bits_equal == n.bits_equal &&
         m.rmse == n.rmse && m.rms_a == n.rms_a && m.rms_b == n.rms_b && m.max_abs == n.max_abs &&
         m.worst.position == n.worst.position && m.worst.a == n.worst.a && m.worst.b == n.worst.b;
}

// Whether NaN or infinities are on one side only, as far as is known: where both have some, as a
// mask has, others may be masked.
bool IsFiniteOnOneSide(const PassDiff& pass, const Outcome& outcome) {
  const Verdict& v = outcome.comparison.verdict;
  if (v.special != Answer::kDiffers || v.special_allowed) return false;
  if (outcome.comparison.evidence == Evidence::kPayload) {
    const Metrics m = *outcome.comparison.metrics;
    return (m.nan_a + m.inf_a == 0) != (m.nan_b + m.inf_b == 0);
  }
  const auto is_finite = [](const std::optional<Summary>& s) -> std::optional<bool> {
    if (!s || !s->nan || !s->positive_inf || !s->negative_inf) return std::nullopt;
    return *s->nan + *s->positive_inf + *s->negative_inf == 0;
  };
  const auto a = is_finite(SummaryIn(*pass.a, outcome.ids.a));
  const auto b = is_finite(SummaryIn(*pass.b, outcome.ids.b));
  return a && b && *a != *b;
}

// What an optimizer keeps is made of gradients alone, whatever the weights are.
bool AddsToGradients(const Outcome& outcome) {
  if (!outcome.fails || !outcome.of_optimizer) return false;
  const std::optional<Explanation> explanation = outcome.explanation;
  return explanation && explanation->in_known && !explanation->within && !explanation->follows;
}

// An error that is so much larger than what is explained is no rounding of another order.
constexpr double kFarDb = 40;
// That what goes into an operator does not make, nor its roundings.
constexpr double kWellDb = 10;

// By how much its error is beyond what is explained; none where that is not known.
double DbBeyond(const Outcome& outcome) {
  const std::optional<Explanation> explanation = outcome.explanation;
  if (!explanation || outcome.comparison.evidence != Evidence::kPayload) return 0;
  return DbOf(explanation->bound.power) - DbOf(LevelOf(outcome.comparison.metrics).power);
}

}  // namespace

void NameParameter(const ParameterDifference& parameter, Origin* origin) {
  origin->parameter = parameter.name;
  origin->of_buffer = parameter.buffer;
  origin->parameter_row = parameter.row;
  origin->drifted = parameter.drifted;
  origin->may_be_steps = parameter.may_be_steps;
}

bool IsBeyondDrift(const PassDiff& pass, const Outcome& outcome) {
  if (!outcome.fails) return false;
  if (IsFiniteOnOneSide(pass, outcome)) return true;
  return AddsToGradients(outcome) && DbBeyond(outcome) > kFarDb;
}

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

// Whether `outcome` comes after all gradients, of which there are some, or an optimizer keeps it.
bool EndsPass(const PassDiff& pass, const Outcome& outcome) {
  bool any = outcome.of_optimizer;
  for (const Outcome& other : pass.outcomes) {
    if (!IsGradient(other.role)) continue;
    any = true;
    if (other.order >= outcome.order) return false;
  }
  return any;
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
    const Candidate candidate = CandidateOf(pass, pair, *first);
    const Candidate both[] = {growth_of_.value_or(candidate), candidate};
    if (growth_of_ && ChooseOrigin(both) == 0) return;
    growth_of_ = candidate;
  }
  growth_ = GrowthOf(pass, pair);
}

Candidate OriginFinder::CandidateOf(const PassDiff& pass, const PassPair& pair,
                                    const FirstDifference& first) const {
  Candidate candidate = {
      .step = pair.b.step, .rank = pair.b.rank, .structure = pass.structure, .first = first};
  const auto stage = stages_.count() > 1 ? stages_.Of(pair) : std::nullopt;
  if (!stage) return candidate;
  const Outcome& outcome = pass.outcomes[first.outcome];
  const auto record = pass.b->Get(outcome.ids.b);
  if (!record.ok()) return candidate;
  const auto [phase, chunk] = std::pair(record->key.phase, record->key.chunk);
  candidate.turn = PipelineTurn(PipelinePart(*stage, stages_.count(), chunk), phase,
                                phase == Phase::kForward && EndsPass(pass, outcome));
  return candidate;
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
  suspects->list.push_back(MakeSuspect(pass, pair, *first));
}

OriginFinder::Suspect OriginFinder::MakeSuspect(const PassDiff& pass, const PassPair& pair,
                                                const FirstDifference& first) const {
  const Outcome& outcome = pass.outcomes[first.outcome];
  Suspect suspect;
  suspect.candidate = CandidateOf(pass, pair, first);
  suspect.parting = {pair, GivenIn(pass, outcome)};
  const auto record = pass.b->Get(outcome.ids.b);
  suspect.of_numbers = record.ok() && FormatOf(record->dtype).kind == NumberKind::kInteger;
  suspect.key_hash = outcome.key_hash;
  Origin& origin = suspect.origin;
  origin.kind = first.kind;
  origin.certain = first.certain();
  origin.step_a = pair.a.step;
  origin.step = pair.b.step;
  origin.row = MakeRow(pass, pair, outcome);
  origin.rank_a = origin.row->rank_a;
  origin.rank = suspect.candidate.rank = origin.row->rank_b;
  NameOperator(pass, outcome, &origin);
  origin.inputs = InputsOf(pass, pair, outcome);
  if (outcome.of_optimizer) {  // they are of other calls
    suspect.candidate.first.inputs_recorded = static_cast<uint32_t>(origin.inputs.size());
    origin.certain = suspect.candidate.first.certain();
  }
  if (first.last_agreeing)
    origin.last_agreeing = MakeRow(pass, pair, pass.outcomes[*first.last_agreeing]);
  const uint64_t from = first.last_agreeing ? pass.outcomes[*first.last_agreeing].order : 0;
  for (const ParameterDifference& parameter : *parameters_) {
    const auto passed = [&](const auto& call) {
      return call.second.begin > from && call.second.begin < outcome.order &&
             call.second.path == parameter.path;
    };
    if (SameRank(parameter.rank, pair.b.rank) &&
        std::any_of(pass.calls.begin(), pass.calls.end(), passed))
      suspect.passed_by.push_back(parameter);
  }
  if (const ParameterDifference* passed = PassedParameter(pass, pair, outcome))
    suspect.passed_by.insert(suspect.passed_by.begin(), *passed);
  suspect.outside_before = OutsideBefore(pass, pair, outcome);
  const std::optional<Explanation>& explanation = outcome.explanation;
  suspect.adds_error =
      explanation && explanation->in_known && !explanation->within && !explanation->follows;
  suspect.well_beyond =
      outcome.is_output() && !IsGradient(outcome.role) && DbBeyond(outcome) > kWellDb;
  suspect.of_state = outcome.of_optimizer;
  suspect.of_gradients = AddsToGradients(outcome);
  suspect.special = IsFiniteOnOneSide(pass, outcome);
  return suspect;
}

// The differing parameter that `input` is, as far as values tell; null when it is none.
const ParameterDifference* OriginFinder::PassedParameter(const PassDiff& pass, const PassPair& pair,
                                                         const Outcome& input) const {
  if (input.is_output()) return nullptr;
  for (const Outcome& weight : pass.outcomes) {
    if (!weight.is_weight() || weight.of_optimizer || !weight.bits_differ ||
        !HaveTheSameValues(pass, weight, input))
      continue;
    const std::string name = MakeRow(pass, pair, weight).name;
    for (const ParameterDifference& parameter : *parameters_) {
      if (parameter.name == name && SameRank(parameter.rank, pair.b.rank)) return &parameter;
    }
  }
  return nullptr;
}

std::optional<ParameterDifference> OriginFinder::OutsideBefore(const PassDiff& pass,
                                                               const PassPair& pair,
                                                               const Outcome& difference) const {
  std::optional<ParameterDifference> earliest;
  uint64_t used = difference.call;
  for (const ParameterDifference& parameter : *parameters_) {
    if (!parameter.outside || !SameRank(parameter.rank, pair.b.rank)) continue;
    for (const auto& [begin, call] : pass.calls) {
      if (begin >= used || call.path != parameter.path || call.end >= difference.order) continue;
      used = begin;
      earliest = parameter;
    }
  }
  return earliest;
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
    if (parameter.step > origin.step || !SameRank(parameter.rank, origin.rank) ||
        !PathWithin(parameter.path, origin.path))
      continue;
    if (own == nullptr || (parameter.path == own->path && parameter.share > own->share))
      own = &parameter;
  }
  return own;
}

// Weights that are a little off make no NaN, and nothing but gradients goes into their mean.
bool OriginFinder::MayMake(const ParameterDifference& parameter, const Suspect& suspect) {
  return !suspect.of_gradients && !(suspect.special && parameter.drifted && parameter.same_special);
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

// Whether the same begins on two ranks, as far as anything tells.
bool OriginFinder::BeginAlike(const Suspect& x, const Suspect& y) {
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

std::optional<OriginFinder::Suspect> OriginFinder::Choose(Suspects* suspects,
                                                          std::vector<std::string>* notes) const {
  if (suspects->list.empty()) return std::nullopt;
  std::vector<Candidate> candidates;
  std::vector<Parting> partings;
  for (Suspect& suspect : suspects->list) {
    Origin& origin = suspect.origin;
    const ParameterDifference* own = OwnParameter(origin);
    if (own != nullptr && !MayMake(*own, suspect)) own = nullptr;
    if (own != nullptr) {
      NameParameter(*own, &origin);
      if (origin.rank == kAllRanks) origin.rank = own->rank;  // every rank has the wrong sum
    }
    suspect.candidate.own_parameter = !origin.parameter.empty();
    suspect.own_within = own != nullptr && own->within;
    suspect.own_outside = own != nullptr && own->outside;
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
  // What a weight before the operator makes goes into the operator.
  const bool by_own = chosen.adds_error && chosen.well_beyond && chosen.own_outside &&
                      chosen.outside_before && chosen.outside_before->drifted;
  if (chosen.outside_before && !by_own && MayMake(*chosen.outside_before, chosen)) {
    BlameParameter(*chosen.outside_before, &origin);
    origin.last_agreeing.reset();  // it may come after what used the parameter
  } else if (origin.kind == OriginKind::kInterval && !chosen.passed_by.empty() &&
             MayMake(chosen.passed_by.front(), chosen)) {
    BlameParameter(chosen.passed_by.front(), &origin);
  }
  // Ranks of another stage of a pipeline hold other operators, whatever they are called.
  const auto stage_of = [&](int32_t rank) {
    const auto found = suspects->ranks.find(rank);
    return found == suspects->ranks.end() ? std::nullopt : found->second;
  };
  for (const auto& [rank, stage] : suspects->ranks) {
    if (rank == origin.rank || stage != stage_of(origin.rank)) continue;
    const auto keys = suspects->differing.find(rank);
    const bool alike = keys != suspects->differing.end() && keys->second.contains(chosen.key_hash);
    (alike ? origin.ranks_alike : origin.ranks_agreeing).push_back(rank);
  }
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
  // A weight within its bound is no cause of an error that a later operator adds by itself.
  const bool by_parameter =
      bits->candidate.own_parameter && !(bits->own_within && beyond->adds_error);
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
