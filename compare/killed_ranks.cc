#include "compare/killed_ranks.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

#include "compare/names.h"
#include "compare/roles.h"
#include "compare/skipped_ranks.h"

namespace tdump::compare {
namespace {

constexpr uint64_t kEnd = std::numeric_limits<uint64_t>::max();

// Of each number another one of 64 bits (splitmix64): sums of them are equal for equal sets.
uint64_t Mixed(uint64_t number) {
  number += 0x9e3779b97f4a7c15;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
  return number ^ (number >> 31);
}

// Of what ranks beside each other run alike.
bool IsOfAll(const Key& key) {
  return !IsOfOptimizer(key) && !ContainsAny(LowerCase(key.path), {"expert"});
}

}  // namespace

void KilledRanks::Begin(const JobStep& step) {
  step_ = &step;
  tensors_.clear();
  killed_.clear();
  beside_.clear();
  const std::vector<PassRef>& passes = step.passes();
  if (passes.empty() || passes.front().extra) return;
  std::unordered_map<int32_t, uint32_t> pass_of;  // by rank
  for (uint32_t pass = 0; pass < passes.size(); ++pass) pass_of[passes[pass].rank] = pass;
  for (const auto& [rank, state] : side_->killed()) {
    Killed killed{.rank = {.rank = rank, .how = state.how}};
    if (const auto pass = pass_of.find(rank); pass != pass_of.end()) killed.pass = pass->second;
    const std::optional<PassRef>& last = state.last;
    const bool is_in_this =
        killed.pass && last && last->part && last->index == passes[*killed.pass].index;
    const bool is_before = !killed.pass && (!last || last->step < passes.front().step);
    if (is_before && last) killed.rank.step_before = last->step;
    if (is_in_this || is_before) killed_.push_back(std::move(killed));
  }
}

void KilledRanks::Add(const Group& group, RecordIds ids, uint64_t seen,
                      std::vector<int32_t> alike) {
  if (!killed_.empty()) tensors_.push_back({&group, ids, seen, std::move(alike)});
}

// How far each pass came, and what it has of that.
void KilledRanks::FindReach() {
  std::vector<std::optional<size_t>> last(step_->passes().size());
  std::vector<uint64_t> last_id(last.size());
  for (size_t i = 0; i < tensors_.size(); ++i) {
    for (const Member& member : tensors_[i].group->members) {
      if (member.id < last_id[member.pass]) continue;
      last_id[member.pass] = member.id;
      last[member.pass] = i;
    }
  }
  reach_.assign(last.size(), kEnd);
  for (size_t pass = 0; pass < last.size(); ++pass) {
    if (step_->passes()[pass].part) reach_[pass] = last[pass] ? tensors_[*last[pass]].seen : 0;
  }
  for (Killed& killed : killed_) {
    if (killed.pass) killed.last = last[*killed.pass];
    if (killed.last) killed.reach = tensors_[*killed.last].seen;
  }
  std::ranges::stable_sort(killed_, {}, &Killed::reach);
}

// Of each the last record that its file has.
void KilledRanks::NameLast() {
  std::vector<std::optional<Member>> last(step_->passes().size());
  for (const Group& group : step_->groups()) {
    for (const Member& member : group.members) {
      std::optional<Member>& known = last[member.pass];
      if (!known || known->id < member.id) known = member;
    }
  }
  for (Killed& killed : killed_) {
    if (!killed.pass || !last[*killed.pass]) continue;
    const auto data = step_->DataOf(*last[*killed.pass]);
    if (data.ok()) killed.rank.last = data->record.key;
  }
}

size_t KilledRanks::AddBeside(Passes passes) {
  const auto known = std::ranges::find(beside_, passes);
  if (known != beside_.end()) return static_cast<size_t>(known - beside_.begin());
  beside_.push_back(std::move(passes));
  return beside_.size() - 1;
}

KilledRanks::Passes KilledRanks::BesideByPlace(const Killed& killed) const {
  const Topology& topology = step_->topology();
  Passes beside(step_->passes().size());
  for (size_t pass = 0; pass < beside.size(); ++pass) {
    const int32_t rank = step_->passes()[pass].rank;
    bool is_beside = topology.HasPlace(rank) && topology.HasPlace(killed.rank.rank);
    for (size_t axis = 0; axis < topology.axes().size() && is_beside; ++axis) {
      is_beside = IsOfReplicas(topology.axes()[axis].name) ||
                  topology.PlaceOn(axis, rank) == topology.PlaceOn(axis, killed.rank.rank);
    }
    beside[pass] = is_beside;
  }
  return beside;
}

// In one sweep over the tensors.
void KilledRanks::FindBeside() {
  const bool is_unknown = step_->topology().is_unknown();
  std::vector<uint64_t> had(step_->passes().size());  // of each pass, what it had so far
  size_t next = 0;
  for (Killed& killed : killed_) {
    if (!is_unknown) {
      killed.beside = AddBeside(BesideByPlace(killed));
      continue;
    }
    if (!killed.last) continue;
    for (; next < tensors_.size() && tensors_[next].seen < killed.reach; ++next) {
      for (const Member& member : tensors_[next].group->members) had[member.pass] += Mixed(next);
    }
    Passes beside(had.size());
    for (const Member& member : tensors_[*killed.last].group->members)
      beside[member.pass] = had[member.pass] == had[*killed.pass];
    killed.beside = AddBeside(std::move(beside));
  }
}

// In the order of a rank that has some of both: another one may count otherwise.
bool KilledRanks::IsBehind(const Tensor& tensor, const Killed& killed) const {
  if (!killed.last) return true;
  const std::vector<Member>& of_last = tensors_[*killed.last].group->members;  // by rank
  for (const Member& member : tensor.group->members) {
    const auto beside = std::ranges::lower_bound(of_last, member.pass, {}, &Member::pass);
    if (beside != of_last.end() && beside->pass == member.pass) return member.id > beside->id;
  }
  return tensor.seen > killed.reach;
}

bool KilledRanks::AllHold(const Passes& beside, const Tensor& tensor, const Passes& holders) const {
  bool any = false;
  for (size_t pass = 0; pass < beside.size(); ++pass) {
    if (!beside[pass]) continue;
    if (!holders[pass] && reach_[pass] > tensor.seen) return false;
    any = any || holders[pass];
  }
  return any;
}

std::vector<uint32_t> KilledRanks::Lacking(const Tensor& tensor, const LostCopies& before) const {
  std::vector<uint32_t> lacking;
  Passes holders(step_->passes().size());
  for (const Member& member : tensor.group->members) holders[member.pass] = true;
  const std::vector<bool>* const held = before.HoldersOf(*tensor.group);
  std::vector<std::optional<bool>> all_hold(beside_.size());
  const auto is_missing = [&](const Killed& killed) {
    if (std::ranges::binary_search(tensor.alike, killed.rank.rank)) return false;
    const auto rank = static_cast<size_t>(killed.rank.rank);
    if (held != nullptr && rank < held->size() && (*held)[rank]) return true;
    if (!killed.beside || !IsOfAll(tensor.group->key)) return false;
    std::optional<bool>& known = all_hold[*killed.beside];
    if (!known) known = AllHold(beside_[*killed.beside], tensor, holders);
    return *known;
  };
  for (uint32_t i = 0; i < killed_.size(); ++i) {
    const Killed& killed = killed_[i];
    if (!lacking.empty() && killed.reach > killed_[lacking.front()].reach) break;
    const bool has_some = killed.pass && holders[*killed.pass];
    // The order of these two: the ranks of other stages, which lack nothing, may be many.
    if (!has_some && is_missing(killed) && IsBehind(tensor, killed)) lacking.push_back(i);
  }
  return lacking;
}

KilledParts KilledRanks::Finish(const LostCopies& before) {
  KilledParts parts;
  if (!killed_.empty()) {
    std::ranges::stable_sort(tensors_, {}, &Tensor::seen);
    FindReach();
    NameLast();
    if (is_first_step_) FindBeside();
    for (const Tensor& tensor : tensors_) {
      std::vector<uint32_t> lacking = Lacking(tensor, before);
      if (lacking.empty()) continue;
      // Mostly those of the tensor before.
      if (parts.lists.empty() || parts.lists.back() != lacking)
        parts.lists.push_back(std::move(lacking));
      parts.tensors.push_back({tensor.ids, static_cast<uint32_t>(parts.lists.size() - 1)});
    }
    for (Killed& killed : killed_) parts.ranks.push_back(std::move(killed.rank));
  }
  is_first_step_ = false;
  return parts;
}

}  // namespace tdump::compare
