#include "compare/shard_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "compare/text.h"

namespace tdump::compare {
namespace {

constexpr size_t kListed = 4;  // places named in an error
constexpr std::string_view kUsual[] = {"tp", "cp", "sp", "ep", "etp", "dp", "fsdp", "pp", "vpp"};

std::string RanksAt(const Topology& topology, const Coordinates& at) {
  const std::vector<int32_t> ranks = topology.RanksAt(at);
  return ranks.empty() ? "no rank is there" : RanksText(ranks);
}

bool IsUsual(std::string_view axis) {
  return std::find(std::begin(kUsual), std::end(kUsual), axis) != std::end(kUsual);
}

// Places on the axes of the topology that the dims do not use, as one number.
class OtherAxes {
 public:
  OtherAxes(const std::vector<UsedAxis>& used, const Topology& topology) : topology_(topology) {
    for (size_t i = 0; i < topology.axes().size(); ++i) {
      const bool is_used = std::any_of(used.begin(), used.end(),
                                       [&](const UsedAxis& axis) { return axis.index == i; });
      if (!is_used) axes_.push_back(i);
    }
  }
  uint64_t Of(int32_t rank) const {
    uint64_t place = 0;
    for (const size_t axis : axes_)
      place = place * topology_.axes()[axis].size + topology_.PlaceOn(axis, rank);
    return place;
  }
  // At this place, and at that of the group's shards on the used axes.
  Coordinates At(uint64_t place, Coordinates at) const {
    for (size_t i = axes_.size(); i-- > 0;) {
      const Axis& axis = topology_.axes()[axes_[i]];
      at[axis.name] = static_cast<uint32_t>(place % axis.size);
      place /= axis.size;
    }
    return at;
  }

 private:
  const Topology& topology_;
  std::vector<size_t> axes_;
};

class Grouper {
 public:
  Grouper(const std::vector<int32_t>& ranks, const std::vector<UsedAxis>& used, const Dims& dims,
          const Topology& topology)
      : ranks_(ranks), used_(used), dims_(dims), topology_(topology), others_(used, topology) {}

  Result<ShardGroups> Run() {
    TDUMP_RETURN_IF_ERROR(CheckRanks());
    for (const UsedAxis& axis : used_) {
      if (axis.size > (uint64_t{1} << 40) / cells_)
        return InvalidArgument("the axes that share it have more than 2^40 places");
      cells_ *= axis.size;
    }
    for (size_t i = 0; i < ranks_.size(); ++i) by_cell_[CellOf(ranks_[i])].push_back(i);
    if (by_cell_.size() != cells_) return Missing();
    ShardGroups result;
    for (auto& [cell, group] : by_cell_) {
      std::sort(group.begin(), group.end(),
                [&](size_t x, size_t y) { return ranks_[x] < ranks_[y]; });
      result.groups.push_back(std::move(group));
    }
    result.copies = result.groups.front().size();
    TDUMP_RETURN_IF_ERROR(CheckCopies(result));
    TDUMP_RETURN_IF_ERROR(CheckReplicated());
    TDUMP_RETURN_IF_ERROR(CheckStages());
    return result;
  }

 private:
  Status CheckRanks() const {
    std::set<int32_t> seen;
    if (ranks_.empty()) return InvalidArgument("no rank holds it");
    for (const int32_t rank : ranks_) {
      if (!topology_.HasPlace(rank))
        return InvalidArgument(fmt::format("the place of rank {} in the job is not known", rank));
      if (!seen.insert(rank).second)
        return InvalidArgument(fmt::format("rank {} holds it twice", rank));
    }
    return {};
  }

  uint64_t CellOf(int32_t rank) const {
    uint64_t cell = 0;
    for (const UsedAxis& axis : used_)
      cell = cell * axis.size + (axis.index ? topology_.PlaceOn(*axis.index, rank) : 0);
    return cell;
  }

  Coordinates PlaceOfCell(uint64_t cell) const {
    Coordinates at;
    for (size_t i = used_.size(); i-- > 0; cell /= used_[i].size) {
      if (used_[i].index)
        at[topology_.axes()[*used_[i].index].name] = static_cast<uint32_t>(cell % used_[i].size);
    }
    return at;
  }

  Status Missing() const {
    std::vector<std::string> places;
    uint64_t cell = 0;
    for (auto next = by_cell_.begin(); cell < cells_ && places.size() < kListed; ++cell) {
      if (next != by_cell_.end() && next->first == cell) {
        ++next;
        continue;
      }
      const Coordinates at = PlaceOfCell(cell);
      places.push_back(fmt::format("{} ({})", ToText(at), RanksAt(topology_, at)));
    }
    const uint64_t missing = cells_ - by_cell_.size();
    return InvalidArgument(fmt::format(
        "missing shard{} at {}{}", missing == 1 ? "" : "s", fmt::join(places, "; "),
        missing > places.size() ? fmt::format(" and {} more", missing - places.size()) : ""));
  }

  // Every group has its copies at the same places on the other axes.
  Status CheckCopies(const ShardGroups& result) const {
    const auto places = [&](const std::vector<size_t>& group) {
      std::vector<uint64_t> all;
      for (const size_t shard : group) all.push_back(others_.Of(ranks_[shard]));
      std::sort(all.begin(), all.end());
      return all;
    };
    const std::vector<uint64_t> first = places(result.groups.front());
    for (size_t cell = 1; cell < result.groups.size(); ++cell) {
      const std::vector<uint64_t> here = places(result.groups[cell]);
      if (here == first) continue;
      std::vector<uint64_t> lacking;
      std::set_difference(first.begin(), first.end(), here.begin(), here.end(),
                          std::back_inserter(lacking));
      if (!lacking.empty()) return Lacks(lacking.front(), cell, 0);
      std::set_difference(here.begin(), here.end(), first.begin(), first.end(),
                          std::back_inserter(lacking));
      return Lacks(lacking.empty() ? 0 : lacking.front(), 0, cell);
    }
    return {};
  }

  Status Lacks(uint64_t place, uint64_t cell, uint64_t has) const {
    const Coordinates missing = others_.At(place, PlaceOfCell(cell));
    const Coordinates other = others_.At(place, PlaceOfCell(has));
    return InvalidArgument(fmt::format("missing shard at {} ({}), though {} holds one",
                                       ToText(missing), RanksAt(topology_, missing),
                                       RanksAt(topology_, other)));
  }

  std::set<uint32_t> PlacesOn(size_t axis) const {
    std::set<uint32_t> places;
    for (const int32_t rank : ranks_) places.insert(topology_.PlaceOn(axis, rank));
    return places;
  }

  Status CheckReplicated() const {
    for (const std::string& name : dims_.replicated) {
      const auto axis = topology_.Find(name);
      if (!axis) continue;
      const std::set<uint32_t> places = PlacesOn(*axis);
      for (uint32_t place = 0; place < topology_.axes()[*axis].size; ++place) {
        if (places.contains(place)) continue;
        const Coordinates at = {{name, place}};
        return InvalidArgument(fmt::format("missing copy at {} ({}): the dims say replicated[{}]",
                                           ToText(at), RanksAt(topology_, at), name));
      }
    }
    return {};
  }

  // Two stages number their layers alike, so that one name means two layers.
  Status CheckStages() const {
    const auto axis = topology_.Find("pp");
    if (!axis || dims_.Mentions("pp")) return {};
    const std::set<uint32_t> stages = PlacesOn(*axis);
    if (stages.size() == 1) return {};
    return InvalidArgument(
        fmt::format("stages {} of the pipeline all hold this name: map the layer numbers of the "
                    "stages to global ones, or say replicated[pp] if it is one tensor",
                    fmt::join(stages, ", ")));
  }

  const std::vector<int32_t>& ranks_;
  const std::vector<UsedAxis>& used_;
  const Dims& dims_;
  const Topology& topology_;
  OtherAxes others_;
  uint64_t cells_ = 1;
  std::map<uint64_t, std::vector<size_t>> by_cell_;
};

}  // namespace

Result<std::vector<UsedAxis>> FindAxes(const std::vector<std::string>& names,
                                       const Topology& topology) {
  std::vector<UsedAxis> axes;
  for (const std::string& name : names) {
    UsedAxis axis{.name = name, .index = topology.Find(name)};
    if (!axis.index && name == "sp") axis.index = topology.Find("tp");
    if (!axis.index && topology.world() > 1 && (topology.is_unknown() || !IsUsual(name)))
      return InvalidArgument(
          fmt::format("the dims name the axis '{}'; the run has {}", name, topology.ToText()));
    if (axis.index) axis.size = topology.axes()[*axis.index].size;
    for (const UsedAxis& other : axes) {
      if (axis.index && other.index == axis.index)
        return InvalidArgument(fmt::format(
            "the dims name one axis of the run twice, as '{}' and '{}'", other.name, axis.name));
    }
    axes.push_back(std::move(axis));
  }
  return axes;
}

Result<ShardGroups> GroupShards(const std::vector<int32_t>& ranks,
                                const std::vector<UsedAxis>& used, const Dims& dims,
                                const Topology& topology) {
  return Grouper(ranks, used, dims, topology).Run();
}

}  // namespace tdump::compare
