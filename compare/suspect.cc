#include "compare/suspect.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

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

// Whether its error is more than what went into it, and its own roundings, explain.
bool AddsError(const Outcome& outcome) {
  const std::optional<Explanation> explanation = outcome.explanation;
  return explanation && explanation->in_known && !explanation->within && !explanation->follows;
}

// What an optimizer keeps is made of gradients alone, whatever the weights are.
bool AddsToGradients(const Outcome& outcome) {
  return outcome.fails && outcome.of_optimizer && AddsError(outcome);
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

// The differing parameter that `input` is, as far as values tell; null when it is none.
const ParameterDifference* PassedParameter(const PassDiff& pass, const PassPair& pair,
                                           const Outcome& input,
                                           const std::vector<ParameterDifference>& parameters) {
  if (input.is_output()) return nullptr;
  for (const Outcome& weight : pass.outcomes) {
    if (!weight.is_weight() || weight.of_optimizer || !weight.bits_differ ||
        !HaveTheSameValues(pass, weight, input))
      continue;
    const std::string name = MakeRow(pass, pair, weight).name;
    for (const ParameterDifference& parameter : parameters) {
      if (parameter.name == name && SameRank(parameter.rank, pair.b.rank)) return &parameter;
    }
  }
  return nullptr;
}

// The differing parameter that the difference is, then those of calls since the last that agrees.
std::vector<ParameterDifference> PassedBy(const PassDiff& pass, const PassPair& pair,
                                          const FirstDifference& first,
                                          const std::vector<ParameterDifference>& parameters) {
  const Outcome& outcome = pass.outcomes[first.outcome];
  std::vector<ParameterDifference> passed_by;
  if (const ParameterDifference* passed = PassedParameter(pass, pair, outcome, parameters))
    passed_by.push_back(*passed);
  const uint64_t from = first.last_agreeing ? pass.outcomes[*first.last_agreeing].order : 0;
  for (const ParameterDifference& parameter : parameters) {
    const auto passed = [&](const auto& call) {
      return call.second.begin > from && call.second.begin < outcome.order &&
             call.second.path == parameter.path;
    };
    if (SameRank(parameter.rank, pair.b.rank) &&
        std::any_of(pass.calls.begin(), pass.calls.end(), passed))
      passed_by.push_back(parameter);
  }
  return passed_by;
}

std::optional<ParameterDifference> OutsideBefore(
    const PassDiff& pass, const PassPair& pair, const Outcome& difference,
    const std::vector<ParameterDifference>& parameters) {
  std::optional<ParameterDifference> earliest;
  uint64_t used = difference.call;
  for (const ParameterDifference& parameter : parameters) {
    if (!parameter.outside || !SameRank(parameter.rank, pair.b.rank)) continue;
    for (const auto& [begin, call] : pass.calls) {
      if (begin >= used || call.path != parameter.path || call.end >= difference.order) continue;
      used = begin;
      earliest = parameter;
    }
  }
  return earliest;
}

}  // namespace

bool IsBeyondDrift(const PassDiff& pass, const Outcome& outcome) {
  if (!outcome.fails) return false;
  if (IsFiniteOnOneSide(pass, outcome)) return true;
  return AddsToGradients(outcome) && DbBeyond(outcome) > kFarDb;
}

Candidate CandidateOf(const PassDiff& pass, const PassPair& pair, const FirstDifference& first,
                      const Stages& stages) {
  Candidate candidate = {
      .step = pair.b.step, .rank = pair.b.rank, .structure = pass.structure, .first = first};
  const auto stage = stages.count() > 1 ? stages.Of(pair) : std::nullopt;
  if (!stage) return candidate;
  const Outcome& outcome = pass.outcomes[first.outcome];
  const auto record = pass.b->Get(outcome.ids.b);
  if (!record.ok()) return candidate;
  const auto [phase, chunk] = std::pair(record->key.phase, record->key.chunk);
  candidate.turn = PipelineTurn(PipelinePart(*stage, stages.count(), chunk), phase,
                                phase == Phase::kForward && EndsPass(pass, outcome));
  return candidate;
}

Suspect MakeSuspect(const PassDiff& pass, const PassPair& pair, const FirstDifference& first,
                    const std::vector<ParameterDifference>& parameters, const Stages& stages) {
  const Outcome& outcome = pass.outcomes[first.outcome];
  Suspect suspect;
  suspect.candidate = CandidateOf(pass, pair, first, stages);
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
  suspect.passed_by = PassedBy(pass, pair, first, parameters);
  suspect.outside_before = OutsideBefore(pass, pair, outcome, parameters);
  suspect.adds_error = AddsError(outcome);
  suspect.well_beyond =
      outcome.is_output() && !IsGradient(outcome.role) && DbBeyond(outcome) > kWellDb;
  suspect.of_state = outcome.of_optimizer;
  suspect.of_gradients = AddsToGradients(outcome);
  suspect.special = IsFiniteOnOneSide(pass, outcome);
  return suspect;
}

}  // namespace tdump::compare
