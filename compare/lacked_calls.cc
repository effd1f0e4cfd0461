#include "compare/lacked_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "compare/roles.h"

namespace tdump::compare {
namespace {

constexpr uint32_t kAnyPass = std::numeric_limits<uint32_t>::max();
constexpr char kEnd = '\1';  // of a module's name: sorts before what a name may hold

// What is inside a module begins with its name.
std::string NameOf(const Key& key) {
  std::string path = key.path == "." ? "" : key.path + kEnd;
  std::replace(path.begin(), path.end(), '.', kEnd);
  return fmt::format("{}\n{}{}{}", key.micro, key.root, kEnd, path);
}

bool Holds(const Group& group, uint32_t pass) {
  return std::any_of(group.members.begin(), group.members.end(),
                     [&](const Member& member) { return member.pass == pass; });
}

bool HaveOneHash(const JobStep& step, const Member& x, const Member& y) {
  const auto of_x = step.DataOf(x), of_y = step.DataOf(y);
  return of_x.ok() && of_y.ok() && of_x->record.hash && of_x->record.hash == of_y->record.hash;
}

}  // namespace

void LackedCalls::Begin(const JobStep& step) {
  step_ = &step;
  by_name_.clear();
  is_lacked_.clear();
  is_of_no_data_.clear();
}

void LackedCalls::Sort() {
  for (const Group& group : step_->groups()) {
    const Key& key = group.key;
    if (key.op.empty() && !IsOfParameters(key.role) && !key.recompute)
      by_name_.push_back({NameOf(key), &group});
  }
  std::stable_sort(by_name_.begin(), by_name_.end(),
                   [](const Named& x, const Named& y) { return x.name < y.name; });
}

template <class Visit>
bool LackedCalls::AllOf(const Part& part, const Visit& visit) const {
  for (size_t i = part.begin; i < part.end; ++i) {
    const Group& group = *by_name_[i].group;
    if (group.key.call >= part.from_call && !visit(group)) return false;
  }
  return true;
}

bool LackedCalls::IsLacked(const Part& part) {
  const auto [known, is_new] = is_lacked_.try_emplace(part);
  if (is_new)
    known->second = AllOf(part, [&](const Group& group) { return !Holds(group, part.pass); });
  return known->second;
}

LackedCalls::Part LackedCalls::Outermost(const Group& group, uint32_t pass) {
  const std::string name = NameOf(group.key);
  Part part{.begin = 0, .end = 0, .from_call = group.key.call, .pass = pass};
  for (size_t end = name.find(kEnd); end != std::string::npos; end = name.find(kEnd, end + 1)) {
    const std::string module = name.substr(0, end + 1);
    const auto begin =
        std::lower_bound(by_name_.begin(), by_name_.end(), module,
                         [](const Named& of, const std::string& text) { return of.name < text; });
    const auto past = std::partition_point(
        begin, by_name_.end(), [&](const Named& of) { return of.name.starts_with(module); });
    part.begin = static_cast<size_t>(begin - by_name_.begin());
    part.end = static_cast<size_t>(past - by_name_.begin());
    if (IsLacked(part)) return part;
  }
  return part;
}

// On all ranks, whichever data they were given: mostly asked for several that lack it.
bool LackedCalls::AreAllSame(Part part) {
  part.pass = kAnyPass;
  const auto [known, is_new] = is_of_no_data_.try_emplace(part);
  if (is_new) {
    known->second = AllOf(part, [&](const Group& group) {
      const Member& first = group.members.front();
      return std::all_of(group.members.begin() + 1, group.members.end(),
                         [&](const Member& other) { return HaveOneHash(*step_, first, other); });
    });
  }
  return known->second;
}

bool LackedCalls::IsOfNoData(const Group& group, uint32_t pass,
                             const std::function<bool(uint32_t pass)>& counts,
                             const AreOther& are_other) {
  if (by_name_.empty()) Sort();
  const Part part = Outermost(group, pass);
  const auto [known, is_new] = is_of_no_data_.try_emplace(part);
  if (!is_new) return known->second;
  const bool are_all_same = AreAllSame(part);
  bool is_any_same = false;
  std::map<std::pair<uint32_t, uint32_t>, bool> others;  // mostly the same ran all of it
  const auto is_same = [&](const Group& of) {
    const Member* first = nullptr;
    for (const Member& member : of.members) {
      if (are_all_same && is_any_same) break;
      if (!counts(member.pass)) continue;
      if (first == nullptr) first = &member;
      const auto [other, is_first] = others.try_emplace({first->pass, member.pass});
      if (is_first) other->second = are_other(first->pass, member.pass);
      if (!other->second) continue;
      if (!are_all_same && !HaveOneHash(*step_, *first, member)) return false;
      is_any_same = true;
    }
    return true;
  };
  known->second = AllOf(part, is_same) && is_any_same;
  return known->second;
}

}  // namespace tdump::compare
