#include "compare/first_forwards.h"

#include <algorithm>
#include <utility>

#include "compare/same_bytes.h"

namespace tdump::compare {
namespace {

// More than this is not worth a second reading.
constexpr uint64_t kReadAtMost = uint64_t{64} << 20;

Key NameOfKey(Key key) {
  key.call = key.micro = key.chunk = key.lane = 0;
  key.recompute = false;
  return key;
}

// Of the call that a record belongs to, whether it is its forward or a gradient.
Key CallOf(Key key) {
  key.role = Role::kOutput;
  key.arg.clear();
  key.phase = Phase::kForward;
  key.recompute = false;
  return key;
}

std::string OperatorOf(const Key& key) { return ToText(NameOfKey(CallOf(key))); }

}  // namespace

FirstForwards::FirstForwards(const StepView& view, std::span<const uint64_t> anew) : view_(view) {
  for (const uint64_t id : anew) {
    const auto record = view.Get(id);
    if (record.ok() && record->key.recompute) operators_.insert(OperatorOf(record->key));
  }
  if (operators_.empty()) return;
  (void)view.ForEachTensor([&](const io::Record& record) {  // damage is told where it is read
    const Key& key = record.key;
    if (key.phase != Phase::kForward) return true;
    AddCall(key);
    if (!operators_.contains(OperatorOf(key))) return true;
    if (key.recompute)
      anew_[CallOf(key)].push_back(record.id);
    else
      firsts_[ToText(NameOfKey(key))].push_back(
          {record.id, key, record.sizes, record.dtype, record.hash});
    return true;
  });
  (void)view.ForEachCall([&](const io::CallRecord& record) {
    const Call& call = record.call;
    if (call.phase != Phase::kForward) return true;
    AddCall({.root = record.root,
             .path = record.path,
             .op = record.op,
             .call = call.index,
             .micro = call.micro,
             .chunk = call.chunk,
             .recompute = call.recompute,
             .lane = call.lane});
    return true;
  });
}

void FirstForwards::AddCall(const Key& key) {
  const std::string op = OperatorOf(key);
  if (!operators_.contains(op)) return;
  Calls& calls = calls_[op];
  (key.recompute ? calls.anew : calls.first)[{key.micro, key.chunk}].insert(CallOf(key));
}

FirstForwards::Answer FirstForwards::Compare(const io::Record& forward, const First& first) const {
  if (first.sizes != forward.sizes || first.dtype != forward.dtype) return Answer::kDiffers;
  if (first.hash && forward.hash)
    return *first.hash == *forward.hash ? Answer::kEqual : Answer::kDiffers;
  return CompareValues(forward, first.id);
}

FirstForwards::Answer FirstForwards::CompareValues(const io::Record& forward, uint64_t id) const {
  const auto first = view_.Get(id);
  if (!first.ok()) return Answer::kUnread;
  if (first->payload && forward.payload && forward.payload->logical_bytes <= kReadAtMost) {
    auto of_first = view_.Open(*first), of_anew = view_.Open(forward);
    if (!of_first.ok() || !of_anew.ok()) return Answer::kUnread;
    const auto same = SameBytes({&*first, *std::move(of_first)}, {&forward, *std::move(of_anew)});
    if (same.ok()) return *same ? Answer::kEqual : Answer::kDiffers;
  }
  const auto known = view_.SummaryOf(*first), of_anew = view_.SummaryOf(forward);
  return known && of_anew && !(*known == *of_anew) ? Answer::kDiffers : Answer::kUnread;
}

FirstForwards::Answer FirstForwards::Ask(const io::Record& forward) const {
  const auto found = firsts_.find(ToText(NameOfKey(forward.key)));
  if (found == firsts_.end()) return Answer::kNone;
  const auto is_near = [&](const First& first) { return first.key.micro == forward.key.micro; };
  Answer best = Answer::kNone;
  for (const bool near : {true, false}) {  // the most likely first
    for (const First& first : found->second) {
      if (is_near(first) != near) continue;
      best = std::max(best, Compare(forward, first));
      if (best == Answer::kEqual) return best;
    }
  }
  return best;
}

std::set<Key> FirstForwards::CallsLike(const Key& call) const {
  std::set<Key> like;
  const auto anew = anew_.find(call);
  if (anew == anew_.end()) return like;
  bool is_first = true;
  for (const uint64_t id : anew->second) {
    const auto record = view_.Get(id);
    if (!record.ok()) continue;
    std::set<Key> calls;
    const auto firsts = firsts_.find(ToText(NameOfKey(record->key)));
    if (firsts == firsts_.end()) continue;
    for (const First& first : firsts->second) {
      if (Compare(*record, first) == Answer::kDiffers) continue;
      const Key key = CallOf(first.key);
      if (is_first || like.contains(key)) calls.insert(key);
    }
    like = std::move(calls);
    is_first = false;
  }
  return like;
}

std::optional<Key> FirstForwards::OnlyCall(const Key& call) const {
  const auto calls = calls_.find(OperatorOf(call));
  if (calls == calls_.end()) return std::nullopt;
  const auto& [first, anew] = calls->second;
  const auto are_one = [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.size() == 1 && y.second.size() == 1;
  };
  if (!std::ranges::equal(first, anew, are_one)) return std::nullopt;
  const auto found = anew.find({call.micro, call.chunk});
  if (found == anew.end() || !found->second.contains(call)) return std::nullopt;
  return *first.at(found->first).begin();
}

std::optional<Key> FirstForwards::FirstKeyOf(const Key& gradient) const {
  const Key call = CallOf(gradient);
  std::optional<Key> first = OnlyCall(call);
  if (!first) {
    const std::set<Key> like = CallsLike(call);
    if (like.size() != 1) return std::nullopt;
    first = *like.begin();
  }
  Key key = gradient;
  key.call = first->call;
  key.micro = first->micro;
  key.chunk = first->chunk;
  key.lane = first->lane;
  key.recompute = false;
  return key;
}

}  // namespace tdump::compare
