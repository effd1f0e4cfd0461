#include "compare/update_hints.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compare/element.h"
#include "compare/row.h"
#include "compare/text.h"

namespace tdump::compare {
namespace {

constexpr size_t kMostListed = 1000;

bool MayBeRounding(const PassDiff& pass, const Outcome& outcome) {
  const auto a = pass.a->Get(outcome.ids.a), b = pass.b->Get(outcome.ids.b);
  if (!a.ok() || !b.ok() || outcome.comparison.evidence != Evidence::kPayload ||
      outcome.comparison.verdict.special == Answer::kDiffers)
    return false;
  const double unit =
      std::max(FormatOf(a->dtype).UnitRoundoff(), FormatOf(b->dtype).UnitRoundoff());
  const Metrics m = *outcome.comparison.metrics;
  return m.numeric && LevelOf(m).power <= unit;  // an error of sqrt(unit)
}

}  // namespace

void UpdateHints::Enter(uint64_t step) {
  if (open_ && open_->step == step) return;
  before_ = std::exchange(open_, Step{.step = step, .updated = {}});
}

void UpdateHints::Add(const PassDiff& pass, const PassPair& pair, const Outcome& outcome) {
  Enter(pair.b.step);
  if (outcome.of_optimizer || outcome.role == Role::kParamGrad) open_->updated.insert(outcome.path);
  const bool follows = before_ && before_->step + 1 == pair.b.step;
  if (outcome.role != Role::kParam || !outcome.bits_differ || outcome.allowed || !follows ||
      before_->updated.contains(outcome.path) || parted_.size() >= kMostListed)
    return;
  const Row row = MakeRow(pass, pair, outcome);
  parted_.emplace(Place(row.step_b, row.rank_b, ToText(row.key)), MayBeRounding(pass, outcome));
}

std::optional<UpdateHints::Hint> UpdateHints::Find(const DiffReport& report) const {
  const std::optional<Origin>& origin = report.origin;
  if (report.overall != Overall::kDiffers || !origin || !origin->drifted || !origin->parameter_row)
    return std::nullopt;
  const Row& row = *origin->parameter_row;
  const auto parted = parted_.find(Place(row.step_b, row.rank_b, ToText(row.key)));
  if (parted == parted_.end()) return std::nullopt;
  return Hint{
      .text = fmt::format(
          "{} came to step {} by an update of which nothing was recorded: to see whether it "
          "parted by rounding, capture {{role: [param_grad, state], level: full}}",
          Printable(row.name), row.step_b),
      .may_be_rounding = parted->second};
}

}  // namespace tdump::compare
