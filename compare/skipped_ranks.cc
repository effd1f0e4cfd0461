#include "compare/skipped_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <set>
#include <unordered_set>
#include <utility>

#include "compare/names.h"
#include "compare/roles.h"

namespace tdump::compare {
namespace {

bool IsOneOf(const std::string& axis, std::initializer_list<const char*> known) {
  return std::any_of(known.begin(), known.end(), [&](const char* name) { return axis == name; });
}

// Along which ranks are given parts of one batch, or all of it.
bool IsOfBatch(const std::string& axis) { return SharesData(axis) || axis == "cp"; }

uint64_t HashOf(const std::string& text) { return std::hash<std::string>()(text); }

uint64_t OperatorHash(const std::string& root, const std::string& path, const std::string& op) {
  return HashOf(fmt::format("{}\n{}\n{}", root, path, op));
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
uint64_t CallHash(Key key) {
  key.role = Role::kInput;
  key.arg.clear();
  return HashOf(fmt::format("{}\n{}\n{}\n{}", key.root, key.path, key.op, ToText(key)));
}

uint64_t WithRole(uint64_t call, Role role) {
  return HashOf(fmt::format("{}\n{}", call, static_cast<int>(role)));
}

template <class T>
std::vector<T> Sorted(const std::unordered_set<T>& set) {
  std::vector<T> sorted(set.begin(), set.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

}  // namespace

bool MayBeSkipped(const io::Record& record) {
  return record.kind == OperatorKind::kModule && !IsWeight(record.key.role) &&
         !record.key.recompute && !ContainsAny(LowerCase(record.key.path), {"expert"});
}

bool SharesData(const std::string& axis) { return IsOneOf(axis, {"tp", "sp"}); }

bool IsOfReplicas(const std::string& axis) {
  return SharesData(axis) || IsOneOf(axis, {"dp", "fsdp", "cp"});
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
  std::unordered_map<uint64_t, Calls> calls;
  std::unordered_set<uint64_t> recorded, roles;
  std::unordered_set<uint32_t> micros;
  const auto of = [&](const std::string& root, const std::string& path,
                      const std::string& op) -> Calls& {
    const uint64_t name = OperatorHash(root, path, op);
    Calls& of_operator = calls[name];
    of_operator.name = name;
    return of_operator;
  };
  // What cannot be read is told where the pass is compared.
  (void)view.ForEachCall([&](const io::CallRecord& call) {
    ++of(call.root, call.path, call.op).all;
    micros.insert(call.call.micro);
    return true;
  });
  (void)view.ForEachTensor([&](const io::Record& record) {
    const Key& key = record.key;
    if (IsWeight(key.role)) return true;
    micros.insert(key.micro);
    const uint64_t call = CallHash(key);
    if (recorded.insert(call).second) ++of(key.root, key.path, key.op).recorded;
    roles.insert(WithRole(call, key.role));
    return true;
  });
  calls_.reserve(calls.size());
  for (const auto& [name, of_operator] : calls) calls_.push_back(of_operator);
  std::sort(calls_.begin(), calls_.end(),
            [](const Calls& x, const Calls& y) { return x.name < y.name; });
  recorded_ = Sorted(recorded);
  roles_ = Sorted(roles);
  micros_ = Sorted(micros);
}

bool CallsOfPass::HasMicroBatch(uint32_t micro) const {
  return std::binary_search(micros_.begin(), micros_.end(), micro);
}

bool CallsOfPass::HasRole(const io::Record& record) const {
  const Key& key = record.key;
  return std::binary_search(roles_.begin(), roles_.end(), WithRole(CallHash(key), key.role));
}

bool CallsOfPass::Lacks(const io::Record& record) const {
  const Key& key = record.key;
  if (std::binary_search(recorded_.begin(), recorded_.end(), CallHash(key))) return false;
  // Calls without records: a rule left their values out.
  const uint64_t name = OperatorHash(key.root, key.path, key.op);
  const auto calls =
      std::lower_bound(calls_.begin(), calls_.end(), name,
                       [](const Calls& of, uint64_t wanted) { return of.name < wanted; });
  return calls == calls_.end() || calls->name != name || calls->all <= calls->recorded;
}

bool MayHaveSkipped(const OperatorUse& use, const CallsOfPass& calls) {
  return use.is_known ? use.is_selected && use.not_kept == 0 : !calls.is_empty();
}

void SkippedRanks::Begin(const JobStep& step) {
  step_ = &step;
  passes_.clear();
  calls_.clear();
  data_.clear();
  told_.clear();
  lacked_.Begin(step);
  const Topology& topology = step.topology();
  std::map<std::vector<uint32_t>, uint32_t> beside, given, batch;  // numbers of places
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
      pass.batch = number(ref.rank, IsOfBatch, &batch);
    }
    passes_.push_back(pass);
  }
}

const CallsOfPass& SkippedRanks::CallsOf(uint32_t pass) {
  return calls_.try_emplace(pass, *step_->views()[pass]).first->second;
}

const GivenData& SkippedRanks::DataOf(uint32_t pass) {
  return data_.try_emplace(pass, *step_->views()[pass]).first->second;
}

SkippedRanks::Given SkippedRanks::GivenTo(uint32_t pass, const std::vector<uint32_t>& ran,
                                          uint32_t micro) {
  if (told_of_.second != micro || told_of_.first != ran) {
    told_of_ = {ran, micro};
    told_.clear();
  }
  const auto [known, is_new] = told_.try_emplace(pass);
  Given& given = known->second;
  if (!is_new) return given;
  const bool is_place_known = !step_->topology().is_unknown();
  given = {.is_other = true, .is_known = true};
  for (const uint32_t other : ran) {
    if (passes_[other].beside != passes_[pass].beside) continue;
    const bool are_same_by_place = AreSameByPlace(pass, other);
    const auto same = DataOf(pass).IsAsOf(DataOf(other), micro, are_same_by_place);
    if (same && *same) return given = {.is_other = false, .is_known = true};
    if (same) continue;
    given.is_known = false;
    given.is_other &= is_place_known && !are_same_by_place;
  }
  return given;
}

bool SkippedRanks::AreSameByPlace(uint32_t pass, uint32_t other) const {
  return !step_->topology().is_unknown() && passes_[other].given == passes_[pass].given;
}

bool SkippedRanks::IsOfNoData(const Group& group, uint32_t lacking, uint32_t micro) {
  const Pass& pass = passes_[lacking];
  const auto counts = [&](uint32_t other) {
    return passes_[other].is_whole && passes_[other].beside == pass.beside;
  };
  const auto are_other = [&](uint32_t x, uint32_t y) {
    // What parts of one batch have in common may come of that batch.
    const auto &of_x = passes_[x].batch, &of_y = passes_[y].batch;
    if (of_x && of_x == of_y && of_x != pass.batch) return false;
    const auto same = DataOf(x).IsAsOf(DataOf(y), micro, AreSameByPlace(x, y));
    return same && !*same;
  };
  return lacked_.IsOfNoData(group, lacking, counts, are_other);
}

std::vector<SkippedRank> SkippedRanks::Find(const Group& group) {
  if (IsWeight(group.key.role) || group.members.size() >= passes_.size()) return {};
  std::vector<bool> holds(passes_.size());
  std::unordered_map<uint32_t, Member> beside;
  std::vector<uint32_t> ran;
  for (const Member& member : group.members) {
    const Pass& pass = passes_[member.pass];
    holds[member.pass] = true;
    if (!pass.is_whole || !pass.beside) continue;
    beside.emplace(*pass.beside, member);
    ran.push_back(member.pass);
  }
  const bool is_unknown = step_->topology().is_unknown();
  const bool may_lack_alone = group.nth == 0 && !IsOfParameters(group.key.role);
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
    const CallsOfPass& calls = CallsOf(index);
    const bool ran_it = !calls.Lacks(*record);
    if (ran_it && (is_unknown || !may_lack_alone || !calls.HasRole(*record))) continue;
    const PassRef& ref = step_->passes()[index];
    const OperatorUse use = step_->base().UseOf(ref, record->key);
    if (!MayHaveSkipped(use, calls)) continue;
    if (is_unknown && !(use.is_known && use.calls > 0)) continue;
    const Given given = GivenTo(index, ran, record->key.micro);
    if (ran_it) {
      if (given.is_other && given.is_known)
        skipped.push_back(
            {.rank = ref.rank, .has_other_data = true, .is_data_known = true, .ran_it = true});
      continue;
    }
    const bool may_be_other = given.is_other || (is_unknown && !given.is_known);
    if (may_be_other && !calls.HasMicroBatch(record->key.micro)) continue;
    const bool is_excused = given.is_other && !IsOfNoData(group, index, record->key.micro);
    skipped.push_back(
        {.rank = ref.rank, .has_other_data = is_excused, .is_data_known = given.is_known});
  }
  return skipped;
}

}  // namespace tdump::compare
