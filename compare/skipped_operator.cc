#include "compare/skipped_operator.h"

#include <fmt/format.h>

#include <algorithm>

#include "compare/job_text.h"
#include "compare/origin_finder.h"
#include "core/key.h"

namespace tdump::compare {

std::string SkippedText(const std::string& name, char side, uint64_t step,
                        const std::vector<int32_t>& ranks, const std::vector<int32_t>& others) {
  return fmt::format("{} of {} {} no record of {} in step {}, though {} {}", RanksText(ranks), side,
                     ranks.size() == 1 ? "has" : "have", name, step, RanksText(others),
                     others.size() == 1 ? "has" : "have");
}

std::string SkippedText(const SkippedOperator& skipped) {
  return SkippedText(skipped.name, skipped.side, skipped.step, skipped.ranks, skipped.others);
}

void SkippedFinder::AddPass(const PassDiff& pass, const PassPair& pair,
                            const std::optional<FirstDifference>& first) {
  if (found_) return;
  uint64_t earliest = 0;
  for (const char side : {'A', 'B'}) {
    for (const LostCopy& copy : side == 'A' ? pass.lost_a : pass.lost_b) {
      if (copy.how != LostCopy::How::kSkipped) continue;
      const auto record = (side == 'A' ? *pass.a : *pass.b).Get(copy.tensor);
      const auto of_b = pass.b->Get(side == 'A' ? copy.partner : copy.tensor);
      if (!record.ok() || !of_b.ok() || (*allowed_ && allowed_->Match(*record))) continue;
      const Key& key = record->key;
      const std::string name = PlainName(key.root, key.path, key.op);
      if (found_ && found_->skipped.name == name && found_->skipped.side == side) {
        found_->skipped.ranks.push_back(copy.rank);
        earliest = std::min(earliest, of_b->seen);
        continue;
      }
      if (found_ && of_b->seen >= earliest) continue;
      earliest = of_b->seen;
      found_ = Found{.skipped = {.side = side,
                                 .ranks = {copy.rank},
                                 .others = pass.rank_lists[copy.ran],
                                 .name = name,
                                 .step = side == 'A' ? pair.a.step : pair.b.step},
                     .step_a = pair.a.step,
                     .step_b = pair.b.step,
                     .path = key.path,
                     .op = key.op,
                     .is_before_others = false};
    }
  }
  if (!found_) return;
  std::vector<int32_t>& ranks = found_->skipped.ranks;
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  found_->skipped.order = earliest;
  found_->is_before_others = !first || earliest <= pass.outcomes[first->outcome].order;
}

void SkippedFinder::Replace(std::optional<Origin>* origin) const {
  if (!found_) return;
  if (*origin) {
    const Origin& other = **origin;
    if (other.step < found_->step_b) return;
    const bool is_earlier =
        !found_->is_before_others || other.by_bits || other.kind == OriginKind::kParameter;
    if (other.step == found_->step_b && is_earlier) return;
  }
  Origin skipped;
  skipped.kind = OriginKind::kMissing;
  skipped.certain = true;
  skipped.step_a = found_->step_a;
  skipped.step = found_->step_b;
  const std::vector<int32_t>& ranks = found_->skipped.ranks;
  skipped.rank = found_->skipped.side == 'B' ? ranks.front() : kAllRanks;
  skipped.rank_a = found_->skipped.side == 'A' ? ranks.front() : kAllRanks;
  if (found_->skipped.side == 'B') skipped.ranks = ranks;
  skipped.name = found_->skipped.name;
  skipped.path = found_->path;
  skipped.op = found_->op;
  skipped.skipped = found_->skipped;
  *origin = std::move(skipped);
}

}  // namespace tdump::compare
