#include "compare/weight_list.h"

#include <algorithm>
#include <memory>

#include "compare/roles.h"

namespace tdump::compare {
namespace {

constexpr size_t kMostListed = 1000;

double ShareOutside(const Outcome& outcome) {
  if (outcome.comparison.evidence != Evidence::kPayload) return 0;
  const Metrics m = outcome.comparison.metrics;
  return m.elements == 0 ? 0 : static_cast<double>(m.outside()) / static_cast<double>(m.elements);
}

}  // namespace

void WeightList::See(const Outcome& outcome, uint64_t step) {
  first_step_ = std::min(first_step_.value_or(step), step);
  if (outcome.is_weight() && !outcome.of_optimizer) seen_at_.insert(step);
  trains_ = trains_ || IsGradient(outcome.role);
}

void WeightList::Add(const Row& row, int32_t rank, const Outcome& outcome) {
  if (outcome.of_optimizer) return steps_.AddState(row, rank, outcome);
  report_->parameters.failing_pairs += outcome.fails && !outcome.allowed;
  const std::pair place(rank, row.name);
  const auto first = first_steps_.find(place);
  const bool later = first != first_steps_.end() && first->second != row.step_b;
  if (outcome.allowed) {
    first_steps_.try_emplace(place, row.step_b);
    return AddAllowed(row, later);
  }
  if (outcome.fails && !first_outside_) first_outside_ = DifferenceOf(row, rank, outcome, later);
  if (later && (!outcome.bits_differ || finder_->DiffersBefore(row.step_b, !outcome.fails)))
    return AddFollowing(row, outcome);
  ParameterReport& p = report_->parameters;
  if (!outcome.fails && !outcome.comparison.verdict.Judged()) {
    ++p.not_judged;
    return;
  }
  first_steps_.try_emplace(place, row.step_b);
  ++p.pairs;
  if (!later) p.first_steps.insert(row.step_b);
  const Verdict& v = outcome.comparison.verdict;
  p.by_statistics += v.bitwise == Answer::kNotJudged && v.statistics == Answer::kSame;
  const bool buffer = row.key.role == Role::kState;
  Names& names = buffer ? buffers_ : parameters_;
  names.seen.insert(row.name);
  if (!outcome.bits_differ) return;
  names.differing.insert(row.name);
  if (!later) names.from_start.insert(row.name);
  if (!v.Unproven()) names.measured.insert(row.name);
  const auto same = [&](const ParameterDifference& d) {
    return d.rank == row.rank_b && d.name == row.name;
  };
  if (p.differing.size() < kMostListed &&
      std::none_of(p.differing.begin(), p.differing.end(), same))
    p.differing.push_back(DifferenceOf(row, rank, outcome, later));
}

ParameterDifference WeightList::DifferenceOf(const Row& row, int32_t rank, const Outcome& outcome,
                                             bool later) const {
  const Verdict& v = outcome.comparison.verdict;
  return {.name = row.name,
          .path = row.key.path,
          .rank = row.rank_b,
          .holder = row.holder,
          .step = row.step_b,
          .buffer = row.key.role == Role::kState,
          .outside = outcome.fails,
          .within = v.tolerance == Answer::kSame,
          .share = ShareOutside(outcome),
          .drifted = later,
          .same_special = v.HasValues() && v.special == Answer::kSame,
          .may_be_steps = steps_.MayHaveMade(row, rank, outcome),
          .row = std::make_shared<const Row>(row)};
}

void WeightList::AddAllowed(const Row& row, bool later) {
  ParameterReport& p = report_->parameters;
  Names& names = row.key.role == Role::kState ? buffers_ : parameters_;
  ++p.pairs;
  names.seen.insert(row.name);
  names.allowed.insert(row.name);
  if (later) return;
  p.first_steps.insert(row.step_b);
  names.allowed_from_start.insert(row.name);
}

void WeightList::AddFollowing(const Row& row, const Outcome& outcome) {
  if (!outcome.fails || outcome.allowed) return;
  const Verdict& v = outcome.comparison.verdict;
  FollowingWeight weight = {.name = row.name,
                            .rank = row.rank_b,
                            .step = row.step_b,
                            .buffer = row.key.role == Role::kState,
                            .special = v.special == Answer::kDiffers && !v.special_allowed};
  if (outcome.comparison.evidence == Evidence::kPayload)
    weight.sqnr_db = outcome.comparison.metrics->sqnr_db;
  const auto [known, added] = following_.try_emplace(row.name, weight);
  if (!added && weight.IsFartherThan(known->second)) known->second = std::move(weight);
}

void WeightList::CountNames() {
  ParameterReport& p = report_->parameters;
  p.compared = parameters_.seen.size();
  p.differing_names = parameters_.differing.size();
  p.buffers_compared = buffers_.seen.size();
  p.buffers_differing = buffers_.differing.size();
  p.drifted_names = parameters_.drifted();
  p.buffers_drifted = buffers_.drifted();
  for (const auto& [name, weight] : following_) {
    if (parameters_.differing.contains(name) || buffers_.differing.contains(name)) continue;
    ++(weight.buffer ? p.buffers_following : p.following_names);
    auto& farthest = weight.buffer ? p.buffers_farthest : p.farthest;
    if (weight.has_distance() && (!farthest || weight.IsFartherThan(*farthest))) farthest = weight;
  }
  p.allowed_names = parameters_.allowed.size();
  p.buffers_allowed = buffers_.allowed.size();
  p.allowed_from_start = parameters_.allowed_from_start.size();
  p.buffers_allowed_from_start = buffers_.allowed_from_start.size();
  p.by_hash = parameters_.by_hash() + buffers_.by_hash();
}

Origin WeightList::FirstDiffering() const {
  const std::vector<ParameterDifference>& differing = report_->parameters.differing;
  const auto beyond = std::ranges::find(differing, false, &ParameterDifference::within);
  const ParameterDifference& first = first_outside_              ? *first_outside_
                                     : beyond != differing.end() ? *beyond
                                                                 : differing.front();
  Origin origin;
  origin.kind = OriginKind::kParameter;
  origin.step = first.step;
  origin.rank = first.rank;
  origin.name = origin.path = first.path;
  NameParameter(first, &origin);
  return origin;
}

// What an optimizer keeps is made of gradients: those that were recorded agree, or come first.
bool WeightList::AreUnseen(const Origin& origin, const RunSide& b) const {
  const bool trains = trains_ || b.Facts().boundary.starts_with("optimizer");
  if (!trains || origin.kind == OriginKind::kInputs || origin.kind == OriginKind::kMissing ||
      seen_at_.contains(origin.step))
    return false;
  const bool was_trained = first_step_.value_or(origin.step) < origin.step;
  const bool of_optimizer = origin.row && IsOfOptimizer(origin.row->key);
  return (was_trained && !of_optimizer) || finder_->DiffersBefore(origin.step, /*bits=*/true);
}

}  // namespace tdump::compare
