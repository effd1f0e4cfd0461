#include "compare/given_data.h"

#include <algorithm>
#include <functional>
#include <string>
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
    if (key.role != Role::kInput || key.recompute || record.kind != OperatorKind::kModule)
      return true;
    Key call = key;
    call.arg.clear();
    const Input input{
        .name = std::hash<std::string>()(ToText(key)),
        .value = record.hash ? std::optional(io::LowWord(*record.hash)) : std::nullopt,
        .call = std::hash<std::string>()(ToText(call)),
        .micro = key.micro,
        .is_integer = FormatOf(record.dtype).kind == NumberKind::kInteger};
    if (roots.IsData(record)) of_model_.push_back(input);
    if (input.value) seen.emplace_back(record.seen, input);
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
  for (const Input& input : of_model_) model_calls_.push_back(input.call);
  std::sort(model_calls_.begin(), model_calls_.end());
}

bool GivenData::HasMore(const GivenData& other, std::optional<uint32_t> micro) const {
  auto of_other = other.of_model_.begin();
  const auto end = other.of_model_.end();
  return std::any_of(of_model_.begin(), of_model_.end(), [&](const Input& input) {
    if (micro && input.micro != *micro) return false;
    while (of_other != end && of_other->name < input.name) ++of_other;
    return (of_other == end || of_other->name != input.name) &&
           std::binary_search(other.model_calls_.begin(), other.model_calls_.end(), input.call);
  });
}

std::optional<bool> GivenData::SameOfModel(const GivenData& other, std::optional<uint32_t> micro,
                                           bool integers_tell) const {
  bool is_any_same = false, are_integers_same = false, are_others = false;
  auto of_other = other.of_model_.begin();
  const auto end = other.of_model_.end();
  for (const Input& input : of_model_) {
    if (micro && input.micro != *micro) continue;
    while (of_other != end && of_other->name < input.name) ++of_other;
    if (of_other == end) break;
    if (of_other->name != input.name || !of_other->value || !input.value) continue;
    if (*of_other->value == *input.value) {
      is_any_same = true;
      are_integers_same |= input.is_integer;
    } else if (input.is_integer || !integers_tell) {
      return false;
    } else {
      are_others = true;
    }
  }
  if (!integers_tell && !are_integers_same &&
      (HasMore(other, micro) || other.HasMore(*this, micro)))
    return false;
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
    if (const auto same = SameOfModel(other, within, are_same_by_place)) return same;
    const auto same = SameFirst(other, within);
    if (same && (*same || !are_same_by_place)) return same;
  }
  return std::nullopt;
}

}  // namespace tdump::compare
