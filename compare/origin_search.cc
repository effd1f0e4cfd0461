#include "compare/origin_search.h"

#include <utility>

#include "compare/growth.h"
#include "compare/roles.h"

namespace tdump::compare {

template <class Change>
void OriginSearch::ForEachOrigin(const Change& change) {
  for (std::optional<Origin>* origin :
       {&report_->origin, &report_->first_bits, &report_->beyond_drift})
    if (*origin) change(&**origin);
}

void OriginSearch::AddPass(const PassDiff& pass, const PassPair& pair, bool parted) {
  const auto first = finder_.AddPass(pass, pair, /*judged=*/!parted);
  killed_.AddPass(pass, pair, parted);
  if (parted) return;
  missing_.AddPass(pass, pair, first);
  if (options_.across.empty()) update_.AddPass(pass, pair);
  skipped_.AddPass(pass, pair, first);
  // Of copies, and of ranks that are put together, others decide.
  if (!report_->job && options_.across.empty()) unexplained_.AddPass(pass, pair);
}

void OriginSearch::Choose(const WeightList& weights, const PassResults::DiffPair& diff_pair) {
  OriginFinder::Choice choice = finder_.Choose();
  std::optional<Origin>& origin = report_->origin;
  origin = std::move(choice.origin);
  report_->notes.insert(report_->notes.end(), choice.notes.begin(), choice.notes.end());
  missing_.Replace(&origin);
  skipped_.Replace(&origin);
  killed_.Replace(report_->parameters.differing, &origin);
  if (origin) origin->weights_unseen = weights.AreUnseen(*origin, b_);
  if (origin && (origin->drifted || origin->weights_unseen))
    report_->beyond_drift = std::move(choice.beyond_drift);
  // In a lower precision all bits differ from the start.
  if (!options_.pass.compute) report_->first_bits = std::move(choice.first_bits);
  TellUnexplainedStates();
  ForEachOrigin([&](Origin* each) { each->of_named_records = report_->named; });
  report_->growth = GrowthOfOrigin(choice, diff_pair);
}

void OriginSearch::TellUnexplainedStates() {
  const auto found = unexplained_.Finish();
  if (!found) return;
  report_->counts.unexplained_states = found->pairs;
  std::optional<Origin>& origin = report_->origin;
  if (!origin) origin = std::exchange(report_->first_bits, std::nullopt);
  if (origin && origin->row && origin->step == found->step)
    origin->unexplained = IsOfOptimizer(origin->row->key);
}

Growth OriginSearch::GrowthOfOrigin(const OriginFinder::Choice& choice,
                                    const PassResults::DiffPair& diff_pair) const {
  if (!choice.growth_pass) return finder_.growth();
  const Result<PassDiff> pass = diff_pair(*choice.growth_pass, options_.pass);
  return pass.ok() ? GrowthOf(*pass, *choice.growth_pass) : Growth{};
}

void OriginSearch::Explain(const WeightList& weights) {
  update_.Explain(&report_->origin);
  ForEachOrigin([&](Origin* origin) {
    origin->may_divide = weights.MayDivide(b_);
    origin->in_lower_precision = options_.pass.compute.has_value();
  });
}

}  // namespace tdump::compare
