#include "compare/topology.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/parse_number.h"

namespace tdump::compare {
namespace {

constexpr uint32_t kMaxAxisSize = 1 << 24;
constexpr uint64_t kMaxPlaces = uint64_t{1} << 40;

struct Assignment {
  std::string name;
  uint32_t number = 0;
};

bool IsName(std::string_view text) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  if (text.empty() || !is_letter(text.front())) return false;
  return std::all_of(text.begin(), text.end(),
                     [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

// "tp=4 dp=2", "tp=4, dp=2".
Result<std::vector<Assignment>> ParseAssignments(std::string_view text) {
  std::vector<Assignment> assignments;
  constexpr std::string_view kSeparators = " ,\t";
  size_t at = 0;
  while ((at = text.find_first_not_of(kSeparators, at)) != std::string_view::npos) {
    const size_t end = std::min(text.find_first_of(kSeparators, at), text.size());
    const std::string_view item = text.substr(at, end - at);
    const size_t equals = std::min(item.find('='), item.size());
    Assignment assignment{.name = std::string(item.substr(0, equals))};
    const std::string_view digits = item.substr(std::min(equals + 1, item.size()));
    const auto number = ParseNumber<uint32_t>(digits);
    if (!IsName(assignment.name) || !number || *number > kMaxAxisSize)
      return InvalidArgument(fmt::format("'{}', column {}: expected AXIS=NUMBER such as tp=4",
                                         text.substr(0, 200), at + 1));
    assignment.number = *number;
    for (const Assignment& other : assignments) {
      if (other.name == assignment.name)
        return InvalidArgument(fmt::format("'{}', column {}: axis {} a second time",
                                           text.substr(0, 200), at + 1, other.name));
    }
    assignments.push_back(std::move(assignment));
    at = end;
  }
  return assignments;
}

}  // namespace

Result<Coordinates> ParseCoordinates(std::string_view text) {
  TDUMP_ASSIGN_OR_RETURN(const auto assignments, ParseAssignments(text));
  Coordinates at;
  for (const Assignment& assignment : assignments) at[assignment.name] = assignment.number;
  return at;
}

std::string ToText(const Coordinates& at) {
  std::vector<std::string> items;
  for (const auto& [axis, number] : at) items.push_back(fmt::format("{} {}", axis, number));
  return fmt::format("{}", fmt::join(items, ", "));
}

Status Topology::CheckSizes() const {
  uint64_t places = 1;
  for (const Axis& axis : axes_) {
    if (axis.size == 0) return InvalidArgument(fmt::format("axis {} has size 0", axis.name));
    if (&axes_[*Find(axis.name)] != &axis)
      return InvalidArgument(fmt::format("axis {} a second time", axis.name));
    if (axis.size > kMaxPlaces / places)
      return InvalidArgument(fmt::format("the axes {} have more than 2^40 places", ToText()));
    places *= axis.size;
  }
  return {};
}

void Topology::Resize(size_t world) {
  places_.assign(world * axes_.size(), 0);
  has_place_.assign(world, false);
}

Result<Topology> Topology::Regular(std::vector<Axis> axes, int32_t world) {
  Topology topology;
  topology.axes_ = std::move(axes);
  TDUMP_RETURN_IF_ERROR(topology.CheckSizes());
  uint64_t ranks = 1;
  for (const Axis& axis : topology.axes_) ranks *= axis.size;
  if (world < 0 || ranks != static_cast<uint64_t>(world))
    return InvalidArgument(
        fmt::format("the axes {} make {} ranks, the run has {}", topology.ToText(), ranks, world));
  topology.Resize(ranks);
  for (uint64_t rank = 0; rank < ranks; ++rank) {
    topology.has_place_[rank] = true;
    uint64_t rest = rank;
    for (size_t i = 0; i < topology.axes_.size(); ++i) {
      const uint32_t size = topology.axes_[i].size;
      topology.places_[rank * topology.axes_.size() + i] = static_cast<uint32_t>(rest % size);
      rest /= size;
    }
  }
  return topology;
}

Result<Topology> Topology::Parse(std::string_view text, int32_t world) {
  TDUMP_ASSIGN_OR_RETURN(const auto assignments, ParseAssignments(text));
  std::vector<Axis> axes;
  for (const Assignment& assignment : assignments)
    axes.push_back({assignment.name, assignment.number});
  return Regular(std::move(axes), world);
}

Result<Topology> Topology::OfRanks(const std::vector<std::string>& coordinates) {
  std::vector<Coordinates> places(coordinates.size());
  Topology topology;
  for (size_t rank = 0; rank < coordinates.size(); ++rank) {
    auto parsed = ParseCoordinates(coordinates[rank]);
    if (!parsed.ok())
      return std::move(parsed).status().Annotate(fmt::format("coordinates of rank {}", rank));
    places[rank] = std::move(*parsed);
    if (places[rank].empty()) continue;
    if (topology.axes_.empty()) {
      for (const auto& [axis, number] : places[rank]) topology.axes_.push_back({axis, 1});
    }
    bool same = topology.axes_.size() == places[rank].size();
    for (Axis& axis : topology.axes_) {
      const auto found = places[rank].find(axis.name);
      same = same && found != places[rank].end();
      if (same) axis.size = std::max(axis.size, found->second + 1);
    }
    if (!same)
      return InvalidArgument(fmt::format("coordinates of rank {}: '{}' names other axes than {}",
                                         rank, coordinates[rank], topology.ToText()));
  }
  TDUMP_RETURN_IF_ERROR(topology.CheckSizes());
  topology.Resize(places.size());
  for (size_t rank = 0; rank < places.size(); ++rank) {
    topology.has_place_[rank] = !places[rank].empty();
    size_t i = rank * topology.axes_.size();
    for (const auto& [axis, number] : places[rank]) topology.places_[i++] = number;
  }
  return topology;
}

Topology Topology::Unknown(int32_t world) {
  auto topology =
      Regular({{"rank", static_cast<uint32_t>(std::max(1, world))}}, std::max(1, world));
  topology->unknown_ = true;
  return std::move(topology).value();
}

std::optional<size_t> Topology::Find(std::string_view axis) const {
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name == axis) return i;
  }
  return std::nullopt;
}

bool Topology::HasPlace(int32_t rank) const {
  return rank >= 0 && rank < world() && has_place_[static_cast<size_t>(rank)];
}

uint32_t Topology::PlaceOn(size_t axis, int32_t rank) const {
  return places_[static_cast<size_t>(rank) * axes_.size() + axis];
}

Coordinates Topology::Of(int32_t rank) const {
  Coordinates at;
  for (size_t i = 0; HasPlace(rank) && i < axes_.size(); ++i) at[axes_[i].name] = PlaceOn(i, rank);
  return at;
}

std::vector<int32_t> Topology::RanksAt(const Coordinates& some) const {
  std::vector<int32_t> ranks;
  for (int32_t rank = 0; rank < world(); ++rank) {
    const bool is_there = std::all_of(some.begin(), some.end(), [&](const auto& wanted) {
      const auto axis = Find(wanted.first);
      return axis && PlaceOn(*axis, rank) == wanted.second;
    });
    if (is_there && HasPlace(rank)) ranks.push_back(rank);
  }
  return ranks;
}

std::optional<Topology> Topology::Among(const std::vector<int32_t>& ranks) const {
  if (unknown_ || ranks.empty()) return std::nullopt;
  std::vector<std::map<uint32_t, uint32_t>> numbers(axes_.size());  // by place
  for (const int32_t rank : ranks) {
    if (!HasPlace(rank)) return std::nullopt;
    for (size_t axis = 0; axis < numbers.size(); ++axis)
      numbers[axis].emplace(PlaceOn(axis, rank), 0);
  }
  uint64_t places = 1;
  for (auto& on_axis : numbers) {
    if (on_axis.size() > ranks.size() / places) return std::nullopt;
    places *= on_axis.size();
    uint32_t next = 0;
    for (auto& [place, number] : on_axis) number = next++;
  }
  if (places != ranks.size()) return std::nullopt;
  std::vector<std::string> texts(has_place_.size());
  for (const int32_t rank : ranks) {
    for (size_t axis = 0; axis < numbers.size(); ++axis)
      texts[static_cast<size_t>(rank)] +=
          fmt::format("{}={} ", axes_[axis].name, numbers[axis].at(PlaceOn(axis, rank)));
  }
  auto among = OfRanks(texts);
  return among.ok() ? std::optional(*std::move(among)) : std::nullopt;
}

Topology Topology::WithName(std::string_view axis) const {
  Topology named = *this;
  if (unknown_) named.axes_.front().name = axis;
  return named;
}

std::string Topology::ToText() const {
  std::vector<std::string> items;
  for (const Axis& axis : axes_) items.push_back(fmt::format("{}={}", axis.name, axis.size));
  return fmt::format("{}", fmt::join(items, " "));
}

uint64_t GlobalLayer(uint64_t local, uint32_t stage, uint32_t stages, uint32_t chunk,
                     uint64_t layers) {
  return (uint64_t{chunk} * stages + stage) * layers + local;
}

}  // namespace tdump::compare
