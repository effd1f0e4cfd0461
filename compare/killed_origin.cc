#include "compare/killed_origin.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "compare/lost_passes.h"
#include "compare/origin_report.h"
#include "compare/report_lines.h"
#include "compare/roles.h"
#include "core/text.h"

namespace tdump::compare {
namespace {

// What a call was given is recorded when it begins.
std::string PlaceText(const KilledRank& rank) {
  if (!rank.last)
    return rank.step_before ? fmt::format("after step {}", *rank.step_before)
                            : "before its first record";
  io::Record record;
  record.key = *rank.last;
  const bool is_in_call = !IsOutput(record.key.role) && !IsWeight(record.key.role);
  return (is_in_call ? "in " : "after ") + ShownName(NameOf(record));
}

// Whether a weight that differs is a fault by itself: rounding may part weights on the way.
bool IsFault(const Row& weight, bool drifted) {
  const bool is_within = weight.comparison.verdict.tolerance == Answer::kSame;
  return weight.fails || (!is_within && !drifted);
}

bool IsListed(const LostCopy& copy) {
  return copy.how == LostCopy::How::kUnfinished || copy.how == LostCopy::How::kNoPass;
}

}  // namespace

std::string KilledText(const KilledOrigin& killed) {
  if (killed.first.how == kNotInDump) return killed.first.how;
  return Printable(killed.first.how) + " " + PlaceText(killed.first);
}

void KilledFinder::AddPass(const PassDiff& pass, const PassPair& pair, bool parted) {
  if (found_) return;
  AddSide(pass, pair, 'B', parted);
  AddSide(pass, pair, 'A', parted);
}

void KilledFinder::AddSide(const PassDiff& pass, const PassPair& pair, char side, bool parted) {
  const bool of_a = side == 'A';
  const KilledParts& parts = of_a ? pass.killed_a : pass.killed_b;
  if (parts.tensors.empty()) return;
  std::unordered_map<uint64_t, const KilledParts::Tensor*> by_a, by_b;
  for (const KilledParts::Tensor& tensor : parts.tensors) {
    by_a.emplace(tensor.ids.a, &tensor);
    by_b.emplace(tensor.ids.b, &tensor);
  }
  const auto find = [](const auto& tensors, uint64_t id) {
    const auto found = tensors.find(id);
    return found == tensors.end() ? nullptr : found->second;
  };
  const KilledParts::Tensor* first = nullptr;
  uint64_t order = 0;
  const auto see = [&](const KilledParts::Tensor* tensor, uint64_t seen) {
    if (tensor == nullptr || (first != nullptr && seen >= order)) return;
    first = tensor;
    order = seen;
  };
  for (const Outcome& outcome : pass.outcomes) {
    if (!outcome.fails || outcome.allowed) continue;
    const KilledParts::Tensor* const tensor = find(by_a, outcome.ids.a);
    see(tensor != nullptr ? tensor : find(by_b, outcome.ids.b), outcome.order);
  }
  for (const LostCopy& copy : of_a ? pass.lost_a : pass.lost_b) {
    const KilledParts::Tensor* const tensor = find(of_a ? by_a : by_b, copy.tensor);
    if (parted || !IsListed(copy) || tensor == nullptr) continue;
    const auto record = (of_a ? *pass.a : *pass.b).Get(copy.tensor);
    const auto of_b = pass.b->Get(tensor->ids.b);
    const bool is_allowed = record.ok() && *allowed_ && allowed_->Match(*record);
    if (of_b.ok() && !is_allowed) see(tensor, of_b->seen);
  }
  if (first == nullptr || (found_ && found_->order <= order)) return;
  const auto lacking = pass.b->Get(first->ids.b);
  if (!lacking.ok()) return;
  KilledOrigin killed{.side = side, .lacking = lacking->key};
  killed.step = of_a ? pair.a.step : pair.b.step;
  const std::vector<uint32_t>& list = parts.lists[first->ranks];
  killed.first = parts.ranks[list.front()];
  for (const uint32_t i : list) killed.ranks.push_back(parts.ranks[i].rank);
  std::ranges::sort(killed.ranks);
  found_ = Found{std::move(killed), pair.a.step, pair.b.step, order};
}

// Than what is in B at that place.
bool KilledFinder::IsEarlier(uint64_t step, uint64_t order) const {
  return std::pair(found_->step_b, found_->order) <= std::pair(step, order);
}

void KilledFinder::Replace(const std::vector<ParameterDifference>& weights,
                           std::optional<Origin>* origin) const {
  if (!found_) return;
  if (*origin) {
    const Origin& other = **origin;
    const Row* const weight = other.parameter_row.get();
    const uint64_t order = other.row ? other.row->order : other.skipped ? other.skipped->order : 0;
    if (!IsEarlier(other.step, order)) return;
    if (weight != nullptr && IsFault(*weight, other.drifted) &&
        !IsEarlier(weight->step_b, weight->order))
      return;
  } else if (std::ranges::any_of(weights, [&](const ParameterDifference& weight) {
               return weight.row && IsFault(*weight.row, weight.drifted) &&
                      !IsEarlier(weight.step, weight.row->order);
             })) {
    return;  // one of them is the origin
  }
  Origin killed;
  killed.kind = OriginKind::kMissing;
  killed.certain = true;
  killed.step_a = found_->step_a;
  killed.step = found_->step_b;
  const std::vector<int32_t>& ranks = found_->killed.ranks;
  const bool of_a = found_->killed.side == 'A';
  (of_a ? killed.rank_a : killed.rank) = ranks.front();
  (of_a ? killed.rank : killed.rank_a) = kAllRanks;
  if (!of_a) killed.ranks = ranks;
  const Key& key = found_->killed.lacking;
  killed.name = PlainName(key.root, key.path, key.op);
  killed.path = key.path;
  killed.op = key.op;
  killed.killed = found_->killed;
  *origin = std::move(killed);
}

}  // namespace tdump::compare
