#include "compare/unexplained_states.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compare/roles.h"
#include "core/key.h"

namespace tdump::compare {
namespace {

bool IsEqual(const Outcome& outcome) {
  return outcome.is_compared() && outcome.comparison.verdict.bitwise == Answer::kSame;
}

bool DiffersByHash(const Outcome& outcome) {
  return outcome.is_compared() && outcome.of_optimizer && outcome.comparison.verdict.Unproven() &&
         !outcome.comparison.verdict.Fails(false);
}

// Parameters of which the pass holds a gradient.
std::set<std::string> WithGradient(const PassDiff& pass) {
  std::set<std::string> parameters;
  for (const Outcome& outcome : pass.outcomes) {
    if (outcome.role != Role::kParamGrad) continue;
    const auto record = pass.b->Get(outcome.ids.b);
    if (record.ok()) parameters.insert(ParameterIn(record->key));
  }
  return parameters;
}

}  // namespace

void UnexplainedStates::AddPass(const PassDiff& pass, const PassPair& pair) {
  if (over_) return;
  if (!open_ || open_->a != pair.a.step || open_->b != pair.b.step) Close();
  if (over_) return;
  if (!open_) open_ = Step{.a = pair.a.step, .b = pair.b.step};
  Step& step = *open_;
  uint64_t kept = 0;
  bool has_gradients = false;
  std::vector<const Outcome*> differing;
  step.all_given_equal =
      step.all_given_equal && pass.only_a.empty() && pass.only_b.empty() && pass.damage.empty();
  for (const Outcome& outcome : pass.outcomes) {
    if (outcome.of_optimizer) kept += outcome.key_hash;
    has_gradients = has_gradients || outcome.role == Role::kParamGrad;
    if (IsEqual(outcome)) continue;
    if (DiffersByHash(outcome))
      differing.push_back(&outcome);
    else
      step.all_given_equal = false;
  }
  step.has_gradients = step.has_gradients && has_gradients;
  step.all_kept_equal = step.all_kept_equal && differing.empty();
  if (!step.kept.emplace(pair.b.rank, kept).second) step.all_given_equal = false;
  if (!step.all_given_equal || differing.empty()) return;
  const std::set<std::string> with_gradient = WithGradient(pass);
  for (const Outcome* outcome : differing) {
    const auto record = pass.b->Get(outcome->ids.b);
    step.unexplained += record.ok() && with_gradient.contains(ParameterIn(record->key)) &&
                        !(*allowed_ && allowed_->Match(*record));
  }
}

void UnexplainedStates::Close() {
  if (!open_) return;
  const Step step = *std::exchange(open_, std::nullopt);
  const bool follows =
      before_ && before_->a + 1 == step.a && before_->b + 1 == step.b && before_->kept == step.kept;
  over_ = !step.all_given_equal || !step.all_kept_equal;
  if (step.all_given_equal && follows && step.has_gradients && IsEveryRank(step) &&
      step.unexplained > 0)
    found_ = Found{step.b, step.unexplained};
  before_ = step;
}

bool UnexplainedStates::IsEveryRank(const Step& step) const {
  const auto ranks = static_cast<int32_t>(step.kept.size());
  return ranks == a_->world() && ranks == b_->world();
}

std::optional<UnexplainedStates::Found> UnexplainedStates::Finish() {
  Close();
  return a_->Facts().versions == b_->Facts().versions ? found_ : std::nullopt;
}

}  // namespace tdump::compare
