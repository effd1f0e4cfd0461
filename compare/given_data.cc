#include "compare/given_data.h"

#include <algorithm>
#include <functional>
#include <string>
#include <unordered_set>
#include <utility>

#include "compare/element.h"
#include "compare/root_calls.h"
#include "core/key.h"
#include "io/hash.h"

namespace tdump::compare {

GivenData::GivenData(const StepView& view) {
  RootCalls roots;
  // What cannot be read is told where the pass is compared.
  (void)view.ForEachCall([&](const io::CallRecord& record) {
    roots.Add(record.kind, record.root, record.call.begin);
    return true;
  });
  std::vector<std::pair<uint64_t, Input>> seen;
  (void)view.ForEachTensor([&](const io::Record& record) {
    const Key& key = record.key;
    if (key.role != Role::kInput || key.recompute || !record.hash ||
        record.kind != OperatorKind::kModule)
      return true;
    Key call = key;
    call.arg.clear();
    const Input input{.name = std::hash<std::string>()(ToText(key)),
                      .value = io::LowWord(*record.hash),
                      .call = std::hash<std::string>()(ToText(call)),
                      .micro = key.micro,
                      .is_integer = FormatOf(record.dtype).kind == NumberKind::kInteger};
    if (roots.IsData(record)) of_model_.push_back(input);
    seen.emplace_back(record.seen, input);
    return true;
  });
  std::stable_sort(seen.begin(), seen.end(),
                   [](const auto& x, const auto& y) { return x.first < y.first; });
  for (const auto& [when, input] : seen) in_order_.push_back(input);
  by_name_ = in_order_;
  for (Inputs* inputs : {&of_model_, &by_name_}) {
    std::stable_sort(inputs->begin(), inputs->end(),
                     [](const Input& x, const Input& y) { return x.name < y.name; });
  }
}

bool GivenData::HasMore(const Inputs& x, const Inputs& y, std::optional<uint32_t> micro) {
  std::unordered_set<uint64_t> names, calls;
  for (const Input& input : y) {
    names.insert(input.name);
    calls.insert(input.call);
  }
  return std::any_of(x.begin(), x.end(), [&](const Input& input) {
    return (!micro || input.micro == *micro) && calls.contains(input.call) &&
           !names.contains(input.name);
  });
}

std::optional<bool> GivenData::SameOfModel(const Inputs& x, const Inputs& y,
                                           std::optional<uint32_t> micro, bool integers_tell) {
  if (!integers_tell && (HasMore(x, y, micro) || HasMore(y, x, micro))) return false;
  bool is_any_same = false, are_others = false;
  auto other = y.begin();
  for (const Input& input : x) {
    if (micro && input.micro != *micro) continue;
    while (other != y.end() && other->name < input.name) ++other;
    if (other == y.end()) break;
    if (other->name != input.name) continue;
    if (other->value == input.value) {
      is_any_same = true;
    } else if (input.is_integer || !integers_tell) {
      return false;
    } else {
      are_others = true;
    }
  }
  return is_any_same && !are_others ? std::optional(true) : std::nullopt;
}

std::optional<bool> GivenData::SameFirst(const GivenData& other,
                                         std::optional<uint32_t> micro) const {
  for (const Input& input : in_order_) {
    if (micro && input.micro != *micro) continue;
    const auto found =
        std::lower_bound(other.by_name_.begin(), other.by_name_.end(), input.name,
                         [](const Input& of, uint64_t name) { return of.name < name; });
    if (found != other.by_name_.end() && found->name == input.name)
      return found->value == input.value;
  }
  return std::nullopt;
}

std::optional<bool> GivenData::IsAsOf(const GivenData& other, uint32_t micro,
                                      bool are_same_by_place) const {
  for (const std::optional<uint32_t> within : {std::optional(micro), std::optional<uint32_t>()}) {
    if (const auto same = SameOfModel(of_model_, other.of_model_, within, are_same_by_place))
      return same;
    const auto same = SameFirst(other, within);
    if (same && (*same || !are_same_by_place)) return same;
  }
  return std::nullopt;
}

}  // namespace tdump::compare
