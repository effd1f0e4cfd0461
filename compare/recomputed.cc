#include "compare/recomputed.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_set>
#include <vector>

namespace tdump::compare {
namespace {

// Equal for what was computed anew and the first time. Forwards are counted anew, maybe by another
// thread; a gradient may have arrived twice.
std::string FirstText(Key key) {
  key.recompute = false;
  key.lane = 0;
  if (key.phase == Phase::kForward) key.call = key.micro = key.chunk = 0;
  return ToText(key);
}

bool IsAnew(const StepView& view, uint64_t id) {
  const auto record = view.Get(id);
  return record.ok() && record->key.recompute;
}

void LeaveOut(const StepView& view, char side, PassDiff* diff) {
  std::vector<uint64_t>& alone = side == 'A' ? diff->only_a : diff->only_b;
  const auto is_anew = [&](uint64_t id) { return IsAnew(view, id); };
  if (std::ranges::none_of(alone, is_anew)) return;
  std::unordered_set<std::string> first;
  const Status status = view.ForEachTensor([&](const io::Record& record) {
    if (!record.key.recompute) first.insert(FirstText(record.key));
    return true;
  });
  if (!status.ok()) return;  // what is damaged is told where it is read
  const size_t left = std::erase_if(alone, [&](uint64_t id) {
    return is_anew(id) && first.contains(FirstText(view.Get(id)->key));
  });
  if (left == 0) return;
  diff->notes.push_back(fmt::format(
      "what a checkpoint computed anew in {} alone is left out: its first forward is compared",
      side));
}

}  // namespace

void LeaveOutRecomputed(PassDiff* diff) {
  LeaveOut(*diff->a, 'A', diff);
  LeaveOut(*diff->b, 'B', diff);
}

}  // namespace tdump::compare
