#include "compare/name_after_first.h"

#include <algorithm>
#include <map>
#include <optional>

#include "compare/first_forwards.h"

namespace tdump::compare {
namespace {

bool IsAnewGradient(const Leftover& leftover) {
  return leftover.key.recompute && leftover.key.phase == Phase::kBackward;
}

// `first_of`: the key of the first one of the i-th leftover, or none.
template <class FirstOf>
void Name(const FirstOf& first_of, std::vector<Leftover>* leftovers) {
  std::vector<Key> keys;
  std::map<Key, size_t> count;
  for (size_t i = 0; i < leftovers->size(); ++i) {
    const Leftover& leftover = (*leftovers)[i];
    std::optional<Key> first;
    if (IsAnewGradient(leftover)) first = first_of(i);
    keys.push_back(first.value_or(leftover.key));
    ++count[keys.back()];
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    if (count[keys[i]] == 1) (*leftovers)[i].key = keys[i];
  }
}

}  // namespace

void NameAfterFirst(const StepView& view, std::span<const uint64_t> ids,
                    std::vector<Leftover>* leftovers) {
  if (std::ranges::none_of(*leftovers, IsAnewGradient)) return;
  const FirstForwards firsts(view, ids);
  Name([&](size_t i) { return firsts.FirstKeyOf((*leftovers)[i].key); }, leftovers);
}

void NameAfterFirst(const JobStep& step, std::span<const Group* const> groups,
                    std::vector<Leftover>* leftovers) {
  std::map<uint32_t, std::vector<uint64_t>> ids;  // by pass
  for (size_t i = 0; i < groups.size(); ++i) {
    const Member& member = groups[i]->members.front();
    if (IsAnewGradient((*leftovers)[i])) ids[member.pass].push_back(member.id);
  }
  if (ids.empty()) return;
  const std::vector<StepView*> views = step.views();
  std::map<uint32_t, FirstForwards> firsts;
  for (const auto& [pass, of_pass] : ids) firsts.try_emplace(pass, *views[pass], of_pass);
  // As that rank captured it: under the name that both sides share it may not be found.
  const auto first_of = [&](size_t i) -> std::optional<Key> {
    const Member& member = groups[i]->members.front();
    const auto record = views[member.pass]->Get(member.id);
    if (!record.ok()) return std::nullopt;
    const auto first = firsts.at(member.pass).FirstKeyOf(record->key);
    if (!first) return std::nullopt;
    Key key = groups[i]->key;
    key.call = first->call;
    key.micro = first->micro;
    key.lane = first->lane;
    key.recompute = false;
    return key;
  };
  Name(first_of, leftovers);
}

}  // namespace tdump::compare
