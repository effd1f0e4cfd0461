#include "compare/lost_copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "compare/roles.h"

namespace tdump::compare {
namespace {

std::string NameOf(const Group& group) {
  return fmt::format("{} {}", ToText(group.key), group.nth);
}

// Also of a rank without a pass; as JobStep::StageOf.
uint32_t StageOf(const JobStep& step, int32_t rank) {
  const Topology& topology = step.topology();
  const auto axis = topology.Find("pp");
  return axis && topology.HasPlace(rank) ? topology.PlaceOn(*axis, rank) : 0;
}

}  // namespace

void LostCopies::Begin(const JobStep& step) {
  step_ = &step;
  unfinished_.clear();
  absent_.clear();
  extra_ = false;
  for (int32_t rank = 0; rank < step.world(); ++rank) absent_.insert(rank);
  const std::vector<StepView*> views = step.views();
  for (uint32_t pass = 0; pass < views.size(); ++pass) {
    const PassRef& ref = step.passes()[pass];
    absent_.erase(ref.rank);
    extra_ = extra_ || ref.extra;
    if (!ref.part) continue;
    Unfinished& unfinished = unfinished_[ref.rank];
    unfinished.stage = step.StageOf(pass);
    (void)views[pass]->ForEachTensor([&](const io::Record& record) {  // damage: told by Gather
      unfinished.modules.insert(record.key.path);
      unfinished.holds_states = unfinished.holds_states || IsOfOptimizer(record.key);
      return true;
    });
  }
}

void LostCopies::Find(const Group& group, uint64_t tensor, std::vector<LostCopy>* lost) {
  if (extra_) return;  // of a step that some ranks ran more
  std::vector<bool> holds(static_cast<size_t>(std::max(0, step_->world())));
  for (const Member& member : group.members) {
    const auto rank = static_cast<size_t>(std::max(0, step_->RankOf(member)));
    if (rank >= holds.size()) holds.resize(rank + 1);
    holds[rank] = true;
  }
  const std::string name = NameOf(group);
  const auto found = held_by_.find(name);
  for (size_t rank = 0; rank < holds.size(); ++rank) {
    const bool before =
        found != held_by_.end() && rank < found->second.size() && found->second[rank];
    if (holds[rank] || !IsLost(group, static_cast<int32_t>(rank), before)) continue;
    LostCopy copy{.tensor = tensor, .rank = static_cast<int32_t>(rank)};
    copy.how = absent_.contains(copy.rank)       ? LostCopy::How::kNoPass
               : unfinished_.contains(copy.rank) ? LostCopy::How::kUnfinished
                                                 : LostCopy::How::kGone;
    lost->push_back(copy);
  }
  if (found == held_by_.end()) {
    if (group.members.size() > 1) held_by_.emplace(name, std::move(holds));
    return;
  }
  found->second.resize(std::max(found->second.size(), holds.size()));
  for (size_t rank = 0; rank < holds.size(); ++rank)
    if (holds[rank]) found->second[rank] = true;
}

const std::vector<bool>* LostCopies::HoldersOf(const Group& group) const {
  const auto found = held_by_.find(NameOf(group));
  return found == held_by_.end() ? nullptr : &found->second;
}

std::vector<int32_t> LostCopies::Lacking(const Group& group,
                                         const std::vector<int32_t>& ranks) const {
  const std::vector<bool>* const held = HoldersOf(group);
  std::optional<std::set<uint32_t>> stages;  // that hold it; mostly no rank was cut
  const auto is_of_stage = [&](int32_t rank) {
    if (!stages) {
      stages.emplace();
      for (const int32_t holder : ranks) stages->insert(StageOf(*step_, holder));
    }
    return stages->contains(StageOf(*step_, rank));
  };
  std::vector<int32_t> lacking;
  for (int32_t rank = 0; rank < step_->world(); ++rank) {
    const auto place = static_cast<size_t>(rank);
    const bool held_it = held != nullptr && place < held->size() && (*held)[place];
    const bool is_cut = absent_.contains(rank) || unfinished_.contains(rank);
    if (!std::ranges::binary_search(ranks, rank) && (held_it || (is_cut && is_of_stage(rank))))
      lacking.push_back(rank);
  }
  return lacking;
}

bool LostCopies::IsLost(const Group& group, int32_t rank, bool held_before) const {
  const auto unfinished = unfinished_.find(rank);
  if (held_before) return IsWeight(group.key.role) || unfinished != unfinished_.end();
  if (unfinished == unfinished_.end()) return false;
  const bool is_lost_state = IsOfOptimizer(group.key) && !unfinished->second.holds_states;
  if (group.key.role != Role::kParam && !is_lost_state) return false;
  return std::any_of(group.members.begin(), group.members.end(), [&](const Member& member) {
    if (step_->StageOf(member.pass) != unfinished->second.stage) return false;
    const auto data = step_->DataOf(member);
    return data.ok() && unfinished->second.modules.contains(data->record.key.path);
  });
}

std::optional<LostCopy> TakeOutCommon(size_t from_a, size_t from_b, std::vector<LostCopy>* lost_a,
                                      std::vector<LostCopy>* lost_b) {
  const auto place = [](const LostCopy& copy) { return std::pair(copy.rank, copy.how); };
  const auto begin_a = lost_a->begin() + static_cast<ptrdiff_t>(from_a);
  const auto begin_b = lost_b->begin() + static_cast<ptrdiff_t>(from_b);
  std::vector<LostCopy> common;  // by rank, as they were found
  std::ranges::set_intersection(std::ranges::subrange(begin_a, lost_a->end()),
                                std::ranges::subrange(begin_b, lost_b->end()),
                                std::back_inserter(common), {}, place, place);
  if (common.empty()) return std::nullopt;
  const auto is_common = [&](const LostCopy& copy) {
    return std::ranges::binary_search(common, place(copy), {}, place);
  };
  lost_a->erase(std::remove_if(begin_a, lost_a->end(), is_common), lost_a->end());
  lost_b->erase(std::remove_if(begin_b, lost_b->end(), is_common), lost_b->end());
  return common.front();
}

}  // namespace tdump::compare
