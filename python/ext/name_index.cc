#include "python/ext/name_index.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "core/key.h"

namespace tdump::python {
namespace {

enum class Values : uint8_t { kNone, kOwn, kOfComponents };

Values ValuesOf(const io::Record& record) {
  if (record.payload || record.slice) return Values::kOwn;
  const bool composite = record.layout >= Layout::kSparseCoo && record.layout <= Layout::kJagged;
  return composite && record.reason == SkipReason::kNone ? Values::kOfComponents : Values::kNone;
}

bool IsPlainOutput(const Key& key) {
  return key.role == Role::kOutput && key.phase == Phase::kForward && !key.recompute;
}

// Numbers the calls of each operator in the order in which they appear.
class CallNumbers {
 public:
  explicit CallNumbers(size_t calls) { numbers_.reserve(calls); }
  size_t NumberOf(const std::string& name, uint64_t call_begin) {
    Operator& op = operators_[name];
    if (op.calls != 0 && op.last_begin == call_begin) return op.last_number;
    auto [place, added] = numbers_.try_emplace({&op, call_begin}, op.calls);
    op.calls += added;
    op.last_begin = call_begin;
    return op.last_number = place->second;
  }

 private:
  struct Operator {
    uint64_t last_begin = 0;
    size_t last_number = 0, calls = 0;
  };
  using Call = std::pair<const Operator*, uint64_t>;
  struct HashCall {
    size_t operator()(const Call& call) const {
      return (std::hash<const void*>{}(call.first) ^ call.second) * 0x9E3779B97F4A7C15;
    }
  };
  std::unordered_map<std::string_view, Operator> operators_;
  std::unordered_map<Call, size_t, HashCall> numbers_;
};

}  // namespace

struct NameIndex::Output {
  uint64_t id, call_begin, seen;
  Values values;
  std::string name, arg;
  std::vector<std::string> aliases;  // `name` by the other paths of a shared module
};

NameIndex::NameIndex(const io::PassReader& pass) {
  std::vector<Output> outputs;
  outputs.reserve(pass.record_count());
  order_.reserve(pass.record_count());
  keys_.reserve(pass.record_count());
  status_ = pass.ForEachRecord([&](const io::Record& record) {
    const Key& key = record.key;
    order_.push_back(record.id);
    keys_.push_back(ToText(key));
    if (!IsPlainOutput(key)) return true;
    Output& output = outputs.emplace_back(Output{record.id,
                                                 record.call_begin,
                                                 record.seen,
                                                 ValuesOf(record),
                                                 PlainName(key.root, key.path, key.op),
                                                 key.arg,
                                                 {}});
    for (const std::string& path : record.aliases)
      output.aliases.push_back(PlainName(key.root, path, key.op));
    return true;
  });
  NameOutputs(std::move(outputs));
}

// The n-th call of an operator in the whole pass is `::callN`, whatever its own number.
void NameIndex::NameOutputs(std::vector<Output> outputs) {
  const auto appeared_before = [](const Output& a, const Output& b) {
    return std::tie(a.seen, a.id) < std::tie(b.seen, b.id);
  };
  if (!std::is_sorted(outputs.begin(), outputs.end(), appeared_before))
    std::stable_sort(outputs.begin(), outputs.end(), appeared_before);
  CallNumbers calls(outputs.size());
  std::unordered_set<std::string> composite;
  for (const Output& output : outputs) {
    const size_t n = calls.NumberOf(output.name, output.call_begin);
    std::string suffix = n == 0 ? "" : "::call" + std::to_string(n);
    if (!output.arg.empty()) suffix += "." + output.arg;
    for (const std::string& alias : output.aliases) aliases_.push_back({alias + suffix, output.id});
    if (output.values == Values::kOfComponents) composite.insert(output.name + suffix);
    (output.values != Values::kNone ? kept_ : not_kept_)
        .push_back({output.name + suffix, output.id});
  }
  if (!composite.empty()) MoveComposites(composite);
}

// A tensor of components is there as far as they are.
void NameIndex::MoveComposites(const std::unordered_set<std::string>& composite) {
  std::unordered_set<std::string_view> kept;
  for (const Named& named : kept_) kept.insert(named.name);
  std::vector<Named> stay;
  for (const Named& named : kept_) {
    const bool without = composite.contains(named.name) && !kept.contains(named.name + ".values");
    (without ? not_kept_ : stay).push_back(named);
  }
  kept_ = std::move(stay);
}

std::optional<uint64_t> NameIndex::Find(std::string_view text) const {
  if (const auto found = FindExact(text)) return found;
  const auto key = ParseKey(text);
  return key.ok() ? FindExact(ToText(*key)) : std::nullopt;
}

std::optional<uint64_t> NameIndex::FindExact(std::string_view text) const {
  if (ids_.empty()) {
    ids_.reserve(keys_.size());
    for (size_t i = 0; i < keys_.size(); ++i) ids_.emplace(keys_[i], order_[i]);
  }
  const auto found = ids_.find(text);
  return found != ids_.end() ? std::optional(found->second) : std::nullopt;
}

}  // namespace tdump::python
