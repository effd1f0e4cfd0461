#include "compare/operator_uses.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace tdump::compare {
namespace {

// Of a section, or of a key.
auto NameIn(const auto& of) { return std::tie(of.path, of.op, of.root); }

}  // namespace

// The first of this name; null: none has it.
template <class Section>
const Section* OperatorUses::Find(const io::SharedList<Section>& list, const Key& key) {
  if (list.empty()) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto [known, is_new] = orders_.try_emplace(&list[0]);
  Order& order = known->second;
  if (is_new) {
    order.resize(list.size());
    std::iota(order.begin(), order.end(), uint32_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t x, uint32_t y) { return NameIn(list[x]) < NameIn(list[y]); });
  }
  const auto found =
      std::lower_bound(order.begin(), order.end(), key,
                       [&](uint32_t i, const Key& name) { return NameIn(list[i]) < NameIn(name); });
  return found == order.end() || NameIn(list[*found]) != NameIn(key) ? nullptr : &list[*found];
}

OperatorUse OperatorUses::Of(const io::ProcessEntry& process, const Key& key) {
  OperatorUse use;
  // Counted at an orderly end. A rank that expects nothing then is one that no rule selects.
  use.is_known = !process.counts.empty();
  use.is_selected = Find(process.expected, key) != nullptr;
  if (const io::OperatorCountSection* count = Find(process.counts, key)) {
    use.calls = count->calls;
    use.not_kept = count->not_kept;
  }
  return use;
}

}  // namespace tdump::compare
