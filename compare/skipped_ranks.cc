#include "compare/skipped_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <set>
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

// On one axis; of an axis that is not there, the only one.
struct PlacesOnAxis {
  std::set<uint32_t> places = {0};
  uint32_t size = 1;

  bool are_all() const { return places.size() == size; }
  bool are_last() const { return places.size() == 1 && *places.begin() + 1 == size; }
};

struct Places {
  std::map<std::string, PlacesOnAxis> axes;
  bool is_box = false;  // every rank at a product of these places is one of them

  const PlacesOnAxis& On(const std::string& axis) const {
    static const PlacesOnAxis none;
    const auto found = axes.find(axis);
    return found == axes.end() ? none : found->second;
  }
};

Places PlacesByNumber(const std::vector<int32_t>& ranks, int32_t world) {
  PlacesOnAxis numbers{.places = {}, .size = static_cast<uint32_t>(world)};
  for (const int32_t rank : ranks) numbers.places.insert(static_cast<uint32_t>(rank));
  return {.axes = {{"rank", std::move(numbers)}}, .is_box = true};
}

// On the axes of replicas: ranks of several stages may run one name.
Places PlacesOf(const std::vector<int32_t>& ranks, const Topology& topology) {
  Places places;
  std::set<std::vector<uint32_t>> cells;
  for (const int32_t rank : ranks) {
    if (!topology.HasPlace(rank)) continue;
    std::vector<uint32_t> cell;
    for (size_t i = 0; i < topology.axes().size(); ++i) {
      const Axis& axis = topology.axes()[i];
      if (!IsOfReplicas(axis.name)) continue;
      const auto [on_axis, is_new] = places.axes.try_emplace(axis.name);
      if (is_new) on_axis->second = {.places = {}, .size = axis.size};
      cell.push_back(topology.PlaceOn(i, rank));
      on_axis->second.places.insert(cell.back());
    }
    cells.insert(std::move(cell));
  }
  size_t box = 1;
  for (const auto& [name, axis] : places.axes) box *= axis.places.size();
  places.is_box = cells.size() == box;
  return places;
}

bool AreAlike(const Places& a, const Places& b) {
  if (!a.is_box || !b.is_box) return false;
  const auto is_alike = [&](const auto& of_axis) {
    const PlacesOnAxis &x = a.On(of_axis.first), &y = b.On(of_axis.first);
    return (x.are_all() && y.are_all()) || (x.are_last() && y.are_last()) || x.places == y.places;
  };
  return std::all_of(a.axes.begin(), a.axes.end(), is_alike) &&
         std::all_of(b.axes.begin(), b.axes.end(), is_alike);
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

bool SkipAlike(const Topology& topology_a, const RanksOfModule& a, const Topology& topology_b,
               const RanksOfModule& b) {
  const bool by_number = topology_a.is_unknown() || topology_b.is_unknown();
  const auto are_alike = [&](const std::vector<int32_t>& of_a, const std::vector<int32_t>& of_b) {
    return by_number ? AreAlike(PlacesByNumber(of_a, topology_a.world()),
                                PlacesByNumber(of_b, topology_b.world()))
                     : AreAlike(PlacesOf(of_a, topology_a), PlacesOf(of_b, topology_b));
  };
  return are_alike(a.ran, b.ran) || are_alike(a.skipped, b.skipped);
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
