#include "compare/skipped_ranks.h"

#include <fmt/format.h>

#include <algorithm>

#include "compare/names.h"
#include "compare/roles.h"

namespace tdump::compare {
namespace {

// Along which ranks run the same modules.
bool IsOfReplicas(const std::string& axis) {
  for (const char* const known : {"tp", "dp", "fsdp", "cp", "sp"})
    if (axis == known) return true;
  return false;
}

std::string OperatorText(const std::string& root, const std::string& path, const std::string& op) {
  return fmt::format("{}\n{}\n{}", root, path, op);
}

// Without what tells the tensors of one call apart.
std::string CallText(Key key) {
  key.role = Role::kInput;
  key.arg.clear();
  return OperatorText(key.root, key.path, key.op) + "\n" + ToText(key);
}

}  // namespace

bool MayBeSkipped(const io::Record& record) {
  return record.kind == OperatorKind::kModule && !IsWeight(record.key.role) &&
         !record.key.recompute && !ContainsAny(LowerCase(record.key.path), {"expert"});
}

bool MayHaveSkipped(const OperatorUse& rank, const OperatorUse& other) {
  if (!rank.is_known || !other.is_known) return true;
  return rank.is_selected && rank.calls < other.calls && rank.not_kept == 0;
}

CallsOfPass::CallsOfPass(const StepView& view) {
  // What cannot be read is told where the pass is compared.
  (void)view.ForEachCall([&](const io::CallRecord& call) {
    ++calls_[OperatorText(call.root, call.path, call.op)].all;
    return true;
  });
  (void)view.ForEachTensor([&](const io::Record& record) {
    const Key& key = record.key;
    if (!IsWeight(key.role) && recorded_.insert(CallText(key)).second)
      ++calls_[OperatorText(key.root, key.path, key.op)].recorded;
    return true;
  });
}

bool CallsOfPass::Has(const io::Record& record) const {
  if (recorded_.contains(CallText(record.key))) return true;
  // Calls without records: a rule left their values out.
  const Key& key = record.key;
  const auto calls = calls_.find(OperatorText(key.root, key.path, key.op));
  return calls != calls_.end() && calls->second.all > calls->second.recorded;
}

void SkippedRanks::Begin(const JobStep& step) {
  step_ = &step;
  whole_.clear();
  places_.clear();
  calls_.clear();
  const std::vector<StepView*> views = step.views();
  for (uint32_t pass = 0; pass < views.size(); ++pass) {
    const PassRef& ref = step.passes()[pass];
    whole_.push_back(!ref.part && !ref.extra && views[pass]->damage().empty());
  }
  const Topology& topology = step.topology();
  for (int32_t rank = 0; rank < topology.world(); ++rank) {
    if (topology.is_unknown() || !topology.HasPlace(rank)) continue;
    std::vector<uint32_t>& places = places_[rank];
    for (size_t axis = 0; axis < topology.axes().size(); ++axis)
      if (!IsOfReplicas(topology.axes()[axis].name)) places.push_back(topology.PlaceOn(axis, rank));
  }
}

// Where nobody says: perhaps.
bool SkippedRanks::IsBeside(int32_t rank, int32_t other) const {
  const auto x = places_.find(rank), y = places_.find(other);
  if (x == places_.end() || y == places_.end()) return step_->topology().is_unknown();
  return x->second == y->second;
}

const CallsOfPass& SkippedRanks::CallsOf(uint32_t pass) {
  std::optional<CallsOfPass>& calls = calls_[pass];
  if (!calls) calls.emplace(*step_->views()[pass]);
  return *calls;
}

std::vector<int32_t> SkippedRanks::Find(const Group& group) {
  std::vector<int32_t> skipped;
  const std::vector<PassRef>& passes = step_->passes();
  std::vector<bool> holds(passes.size());
  for (const Member& member : group.members) holds[member.pass] = true;
  std::optional<io::Record> record;
  for (uint32_t pass = 0; pass < passes.size(); ++pass) {
    if (holds[pass] || !whole_[pass]) continue;
    const auto beside =
        std::find_if(group.members.begin(), group.members.end(), [&](const Member& member) {
          return whole_[member.pass] && IsBeside(passes[pass].rank, passes[member.pass].rank);
        });
    if (beside == group.members.end()) continue;
    if (!record) {
      auto data = step_->DataOf(*beside);
      if (!data.ok() || !MayBeSkipped(data->record)) return {};
      record = std::move(data->record);
    }
    const OperatorUse own = step_->base().UseOf(passes[pass], record->key);
    const OperatorUse other = step_->base().UseOf(passes[beside->pass], record->key);
    const bool ran_before = own.is_known && own.calls > 0;
    if (step_->topology().is_unknown() && !ran_before) continue;
    if (MayHaveSkipped(own, other) && !CallsOf(pass).Has(*record))
      skipped.push_back(passes[pass].rank);
  }
  return skipped;
}

}  // namespace tdump::compare
