#include "compare/skipped_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "compare/names.h"
#include "compare/roles.h"

namespace tdump::compare {
namespace {

bool IsOneOf(const std::string& axis, std::initializer_list<const char*> known) {
  return std::any_of(known.begin(), known.end(), [&](const char* name) { return axis == name; });
}

// Along which ranks are given the same data; and run the same modules.
bool SharesData(const std::string& axis) { return IsOneOf(axis, {"tp", "sp"}); }
bool IsOfReplicas(const std::string& axis) {
  return SharesData(axis) || IsOneOf(axis, {"dp", "fsdp", "cp"});
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
    micros_.insert(call.call.micro);
    return true;
  });
  (void)view.ForEachTensor([&](const io::Record& record) {
    const Key& key = record.key;
    if (IsWeight(key.role)) return true;
    micros_.insert(key.micro);
    if (recorded_.insert(CallText(key)).second)
      ++calls_[OperatorText(key.root, key.path, key.op)].recorded;
    return true;
  });
}

bool CallsOfPass::Lacks(const io::Record& record) const {
  const Key& key = record.key;
  if (!micros_.contains(key.micro) || recorded_.contains(CallText(key))) return false;
  // Calls without records: a rule left their values out.
  const auto calls = calls_.find(OperatorText(key.root, key.path, key.op));
  return calls == calls_.end() || calls->second.all <= calls->second.recorded;
}

void SkippedRanks::Begin(const JobStep& step) {
  step_ = &step;
  passes_.clear();
  calls_.clear();
  const Topology& topology = step.topology();
  std::map<std::vector<uint32_t>, uint32_t> beside, given;  // numbers of places
  const auto number = [&](int32_t rank, auto&& leaves_out, auto* numbers) {
    std::vector<uint32_t> places;
    for (size_t axis = 0; axis < topology.axes().size(); ++axis)
      if (!leaves_out(topology.axes()[axis].name)) places.push_back(topology.PlaceOn(axis, rank));
    const auto next = static_cast<uint32_t>(numbers->size());
    return numbers->emplace(std::move(places), next).first->second;
  };
  const std::vector<StepView*> views = step.views();
  for (uint32_t index = 0; index < views.size(); ++index) {
    const PassRef& ref = step.passes()[index];
    Pass pass;
    pass.is_whole = !ref.part && !ref.extra && views[index]->damage().empty();
    if (topology.is_unknown()) {
      pass.beside = pass.given = 0;  // perhaps
    } else if (topology.HasPlace(ref.rank)) {
      pass.beside = number(ref.rank, IsOfReplicas, &beside);
      pass.given = number(ref.rank, SharesData, &given);
    }
    passes_.push_back(pass);
  }
}

const CallsOfPass& SkippedRanks::CallsOf(uint32_t pass) {
  std::optional<CallsOfPass>& calls = calls_[pass];
  if (!calls) calls.emplace(*step_->views()[pass]);
  return *calls;
}

std::vector<SkippedRank> SkippedRanks::Find(const Group& group) {
  if (IsWeight(group.key.role) || group.members.size() >= passes_.size()) return {};
  std::vector<bool> holds(passes_.size());
  std::unordered_map<uint32_t, Member> beside;
  std::unordered_set<uint32_t> given;
  for (const Member& member : group.members) {
    const Pass& pass = passes_[member.pass];
    holds[member.pass] = true;
    if (!pass.is_whole || !pass.beside) continue;
    beside.emplace(*pass.beside, member);
    given.insert(*pass.given);
  }
  std::vector<SkippedRank> skipped;
  std::optional<io::Record> record;
  for (uint32_t index = 0; index < passes_.size(); ++index) {
    const Pass& pass = passes_[index];
    if (holds[index] || !pass.is_whole || !pass.beside) continue;
    const auto other = beside.find(*pass.beside);
    if (other == beside.end()) continue;
    if (!record) {
      auto data = step_->DataOf(other->second);
      if (!data.ok() || !MayBeSkipped(data->record)) return {};
      record = std::move(data->record);
    }
    const PassRef& ref = step_->passes()[index];
    const OperatorUse own = step_->base().UseOf(ref, record->key);
    if (step_->topology().is_unknown() && !(own.is_known && own.calls > 0)) continue;
    const PassRef& ran = step_->passes()[other->second.pass];
    if (MayHaveSkipped(own, step_->base().UseOf(ran, record->key)) && CallsOf(index).Lacks(*record))
      skipped.push_back({ref.rank, !given.contains(*pass.given)});
  }
  return skipped;
}

}  // namespace tdump::compare
