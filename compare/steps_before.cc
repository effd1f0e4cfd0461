#include "compare/steps_before.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "compare/optimizer_updates.h"
#include "compare/pairing.h"

namespace tdump::compare {
namespace {

// Of the pairs of one step that have the same ranks there is one, or nothing tells which is meant.
using Place = std::tuple<int32_t, int32_t, uint64_t, uint64_t>;  // ranks and steps of A, B

Place PlaceOf(const PassPair& pair) { return {pair.a.rank, pair.b.rank, pair.a.step, pair.b.step}; }

bool IsExtra(const PassPair& pair) { return pair.a.extra || pair.b.extra; }

}  // namespace

StepsBefore::StepsBefore(const RunSide& a, const RunSide& b, const std::vector<PassPair>& pairs,
                         const PassDiffOptions& options,
                         const std::function<bool(size_t i, size_t before)>& is_same_process)
    : a_(a), b_(b), pairs_(pairs), options_(options) {
  std::map<Place, std::vector<size_t>> places;
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (!IsExtra(pairs[i])) places[PlaceOf(pairs[i])].push_back(i);
  }
  before_.resize(pairs.size());
  known_.assign(pairs.size(), true);
  followed_.assign(pairs.size(), false);
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto [rank_a, rank_b, step_a, step_b] = PlaceOf(pairs[i]);
    if (IsExtra(pairs[i]) || step_a == 0 || step_b == 0 || places[PlaceOf(pairs[i])].size() != 1)
      continue;
    const auto found = places.find({rank_a, rank_b, step_a - 1, step_b - 1});
    // What is not compared before it cannot be waited for.
    if (found == places.end() || found->second.size() != 1 || found->second.front() >= i) continue;
    const size_t before = found->second.front();
    before_[i] = before;
    known_[i] = known_[before] && is_same_process(i, before);
    followed_[before] = true;
  }
}

StepsBefore::Verdicts StepsBefore::VerdictsOf(const PassDiff& diff) {
  std::vector<std::pair<uint64_t, bool>> by_id;
  for (const Outcome& outcome : diff.outcomes) {
    if (StepBefore::Has(outcome.role, outcome.of_optimizer))
      by_id.emplace_back(outcome.ids.b, StepBefore::IsWithin(outcome));
  }
  std::sort(by_id.begin(), by_id.end());
  Verdicts verdicts;
  verdicts.reserve(by_id.size());
  for (const auto& [id, within] : by_id) verdicts.push_back(within);
  return verdicts;
}

void StepsBefore::Put(size_t i, const PassDiff* diff) {
  if (!followed_[i]) return;
  std::shared_ptr<const Verdicts> verdicts;
  if (diff != nullptr && MayExplainUpdates(*diff))
    verdicts = std::make_shared<const Verdicts>(VerdictsOf(*diff));
  const std::lock_guard lock(mutex_);
  verdicts_[i] = std::move(verdicts);
  put_.notify_all();
}

void StepsBefore::ForgetBefore(size_t i) {
  if (!before_[i]) return;
  const std::lock_guard lock(mutex_);
  verdicts_.erase(*before_[i]);
}

std::shared_ptr<const StepBefore> StepsBefore::Before(size_t i) {
  if (!before_[i]) return nullptr;
  std::shared_ptr<const Verdicts> verdicts;
  {
    std::unique_lock lock(mutex_);
    put_.wait(lock, [&] { return verdicts_.contains(*before_[i]); });
    verdicts = verdicts_.at(*before_[i]);
  }
  if (!verdicts) return nullptr;
  auto opened = OpenPasses(a_, b_, pairs_[*before_[i]], Wanted(options_));
  if (!opened.ok()) return nullptr;
  const auto views = std::make_shared<PassViews>();
  views->a = std::move(opened->a);
  views->b = std::move(opened->b);
  auto step = std::make_shared<StepBefore>();
  step->a = views->a.get();
  step->b = views->b.get();
  step->owner = views;
  for (const RecordIds& ids : opened->pairing.pairs) {
    const auto record = step->b->Get(ids.b);
    if (!record.ok()) return nullptr;
    if (StepBefore::Has(record->key.role, IsOfOptimizer(record->key)))
      step->entries.push_back({ids, std::max(record->call_begin, record->seen), false});
  }
  if (step->entries.size() != verdicts->size()) return nullptr;
  std::sort(step->entries.begin(), step->entries.end(),
            [](const auto& x, const auto& y) { return x.ids.b < y.ids.b; });
  for (size_t k = 0; k < verdicts->size(); ++k) step->entries[k].within = (*verdicts)[k];
  return step;
}

bool StepsBefore::IsNeeded(const PassDiff& diff) { return OptimizerUpdates::MayAsk(diff); }

}  // namespace tdump::compare
