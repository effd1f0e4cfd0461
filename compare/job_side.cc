#include "compare/job_side.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "compare/job_step.h"

namespace tdump::compare {
namespace {

Result<Topology> TopologyOf(const RunSide& side, const std::string& text) {
  if (!text.empty()) return Topology::Parse(text, side.world());
  std::vector<std::string> coordinates;
  bool known = false;
  for (int32_t rank = 0; rank < side.world(); ++rank) {
    coordinates.push_back(side.CoordinatesOf(rank));
    known |= !coordinates.back().empty();
  }
  if (!known) return Topology::Unknown(side.world());
  return Topology::OfRanks(coordinates);
}

Coordinates PlacesOf(const Topology& topology, int32_t rank) {
  Coordinates places;
  for (size_t i = 0; i < topology.axes().size(); ++i) {
    const Axis& axis = topology.axes()[i];
    if (axis.size == 1) continue;
    const bool is_only = axis.name == "fsdp" && !topology.Find("dp");
    places[is_only ? "dp" : axis.name] = topology.PlaceOn(i, rank);
  }
  return places;
}

// Of as many ranks; where nobody says how those of one side lie, they have none.
bool HaveOtherPlaces(const Topology& a, const Topology& b) {
  if (a.is_unknown() || b.is_unknown()) return false;
  for (int32_t rank = 0; rank < a.world(); ++rank) {
    if (a.HasPlace(rank) && b.HasPlace(rank) && PlacesOf(a, rank) != PlacesOf(b, rank)) return true;
  }
  return false;
}

}  // namespace

bool LieOtherwise(const RunSide& a, const RunSide& b) {
  if (a.world() != b.world()) return false;
  const auto of_a = TopologyOf(a, ""), of_b = TopologyOf(b, "");
  return of_a.ok() && of_b.ok() && HaveOtherPlaces(*of_a, *of_b);
}

bool LieAlike(const JobSide& a, const JobSide& b) {
  return a.world() == b.world() && !HaveOtherPlaces(a.topology(), b.topology());
}

Result<JobSide> JobSide::Make(const RunSide* base, const PairOptions& options,
                              const std::string& topology) {
  JobSide side(base);
  auto known = TopologyOf(*base, topology);
  if (!known.ok()) return std::move(known).status().Annotate(base->label());
  side.topology_ = std::move(*known);
  std::map<std::tuple<uint64_t, uint32_t, bool, uint32_t>, size_t> steps;
  for (const PassRef& pass : base->passes()) {
    if (!IsSelected(*base, options, pass.rank)) continue;
    const auto [step, added] =
        steps.try_emplace({pass.step, pass.process, pass.extra, pass.nth}, side.steps_.size());
    if (added) {
      PassRef whole = pass;
      whole.rank = kAllRanks;
      whole.index = side.members_.size();
      side.steps_.push_back(whole);
      side.members_.emplace_back();
    }
    side.steps_[step->second].part |= pass.part;
    side.members_[step->second].push_back(pass);
  }
  for (std::vector<PassRef>& members : side.members_) {
    std::stable_sort(members.begin(), members.end(),
                     [](const PassRef& x, const PassRef& y) { return x.rank < y.rank; });
  }
  if (!base->Describe().is_ours) side.SortByRank();
  side.ranks_ = side.FindRanks();
  side.lost_ = side.FindLost(options);
  for (int32_t rank = 0; rank < base->world(); ++rank) {
    if (!IsSelected(*base, options, rank)) continue;
    if (auto killed = base->KilledStateOf(rank)) side.killed_.emplace(rank, *std::move(killed));
  }
  return side;
}

void JobSide::SortByRank() {
  for (const auto& members : members_) {
    for (const PassRef& pass : members) by_rank_[AlikeOf(pass)][pass.rank].push_back(pass);
  }
  for (auto& [alike, ranks] : by_rank_)
    for (auto& [rank, passes] : ranks) std::ranges::stable_sort(passes, {}, &PassRef::step);
}

std::vector<int32_t> JobSide::FindLost(const PairOptions& options) const {
  std::vector<int32_t> lost;
  for (int32_t rank = 0; rank < base_->world(); ++rank) {
    if (!std::ranges::binary_search(ranks_, rank) && base_->IsLost(rank) &&
        IsSelected(*base_, options, rank))
      lost.push_back(rank);
  }
  return lost;
}

Result<std::unique_ptr<StepView>> JobSide::Open(const PassRef& step) const {
  TDUMP_ASSIGN_OR_RETURN(auto view, JobStep::Open(*this, step));
  view->Gather(nullptr);
  view->AddFirstOfEach();
  return std::unique_ptr<StepView>(std::move(view));
}

std::vector<int32_t> JobSide::FindRanks() const {
  std::set<int32_t> ranks;
  for (const auto& members : members_) {
    for (const PassRef& pass : members) ranks.insert(pass.rank);
  }
  return {ranks.begin(), ranks.end()};
}

std::vector<int32_t> JobSide::RanksWithout(const PassRef& step) const {
  std::vector<int32_t> all, have_it, without;
  std::ranges::merge(ranks_, lost_, std::back_inserter(all));
  for (const PassRef& pass : PassesOf(step)) {
    if (!pass.part || HasRecords(pass)) have_it.push_back(pass.rank);
  }
  std::ranges::set_difference(all, have_it, std::back_inserter(without));
  return without;
}

std::vector<PassRef> JobSide::PassesAbsent(const PassRef& step) const {
  const auto alike = by_rank_.find(AlikeOf(step));
  if (alike == by_rank_.end()) return {};
  std::vector<PassRef> absent;
  for (const auto& [rank, passes] : alike->second) {
    if (std::ranges::binary_search(PassesOf(step), rank, {}, &PassRef::rank)) continue;
    const auto after = std::ranges::upper_bound(passes, step.step, {}, &PassRef::step);
    absent.push_back(after == passes.begin() ? *after : *std::prev(after));
    absent.back().step = step.step;
  }
  return absent;
}

bool JobSide::HasRecords(const PassRef& pass) const {
  const auto view = base_->Open(pass);
  if (!view.ok()) return true;
  bool any = false;
  const Status status = (*view)->ForEachTensor([&](const io::Record&) {
    any = true;
    return false;
  });
  return any || !status.ok();
}

}  // namespace tdump::compare
