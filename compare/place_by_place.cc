#include "compare/place_by_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "compare/layout_evidence.h"
#include "compare/layout_odds.h"

namespace tdump::compare {
namespace {

// By places on all axes.
using ShardsByPlace = std::map<Coordinates, size_t>;

// Empty: a rank has no place, or shares it with another one.
ShardsByPlace ByPlace(const std::vector<Shard>& shards, const Topology& topology) {
  ShardsByPlace by_place;
  for (size_t i = 0; i < shards.size(); ++i) {
    Coordinates place = topology.Of(shards[i].rank);
    for (const Axis& axis : topology.axes()) {
      if (axis.size == 1) place.erase(axis.name);
    }
    if (place.empty() || !by_place.emplace(std::move(place), i).second) return {};
  }
  return by_place;
}

bool LieAlike(const ShardSet& a, const ShardsByPlace& places_a, const ShardSet& b,
              const ShardsByPlace& places_b) {
  const auto is_like = [&](const auto& x, const auto& y) {
    return x.first == y.first && a.shards[x.second].shape == b.shards[y.second].shape;
  };
  return !places_a.empty() &&
         std::equal(places_a.begin(), places_a.end(), places_b.begin(), places_b.end(), is_like);
}

bool AreEqual(const ShardSet& set, size_t one, size_t other) {
  if (!set.hashes.empty()) return set.hashes[one] == set.hashes[other];
  if (!set.has_payload) return true;
  const auto x = Opener(set)(one), y = Opener(set)(other);
  Status status;
  return x.ok() && y.ok() && SameBytes(*x, *y, &status) && status.ok();
}

// Axes along which shards that differ in nothing else are not equal.
std::vector<std::string> AxesThatShare(const ShardSet& set, const ShardsByPlace& places,
                                       const Topology& topology) {
  std::vector<std::string> sharing;
  for (const Axis& axis : topology.axes()) {
    std::map<Coordinates, size_t> first;
    const bool copies = std::all_of(places.begin(), places.end(), [&](const auto& place) {
      Coordinates others = place.first;
      others.erase(axis.name);
      const auto [seen, added] = first.emplace(std::move(others), place.second);
      return added || AreEqual(set, seen->second, place.second);
    });
    if (!copies) sharing.push_back(axis.name);
  }
  return sharing;
}

size_t LikeliestDim(const LayoutOdds& odds, const std::string& axis, size_t rank) {
  size_t likeliest = 0;
  int least = std::numeric_limits<int>::max();
  for (size_t dim = 0; dim < rank; ++dim) {
    const int cost = odds.CostOf(axis, Sharing::kSplit, dim, rank, -1);
    if (cost < least) likeliest = dim;
    least = std::min(least, cost);
  }
  return likeliest;
}

// The axes on these dimensions; those that share nothing may be stages of a pipeline, of a weight
// that is tied.
Dims JoinedOn(const std::vector<std::string>& axes, const std::vector<size_t>& on, size_t rank,
              bool has_stages) {
  Dims dims;
  for (size_t i = 0; i < rank; ++i)
    dims.dims.push_back({.parts = {NamedDim{.name = fmt::format("d{}", i)}}});
  for (size_t i = 0; i < axes.size(); ++i)
    dims.dims[on[i]].parts.front().axes.push_back(AxisUse{.axis = axes[i]});
  if (has_stages && std::find(axes.begin(), axes.end(), "pp") == axes.end())
    dims.replicated.emplace_back("pp");
  return dims;
}

// The likeliest dimensions first; of shards that differ in length one alone will do.
std::vector<Dims> WaysToJoin(const ShardSet& set, const Topology& topology,
                             const std::vector<std::string>& axes, size_t rank) {
  const bool has_stages = topology.Find("pp").has_value();
  const LayoutOdds odds(QuestionOf(set, {}));
  std::vector<size_t> likeliest;
  for (const std::string& axis : axes) likeliest.push_back(LikeliestDim(odds, axis, rank));
  std::vector<Dims> ways = {JoinedOn(axes, likeliest, rank, has_stages)};
  for (size_t dim = 0; dim < rank && !axes.empty(); ++dim)
    ways.push_back(JoinedOn(axes, std::vector<size_t>(axes.size(), dim), rank, has_stages));
  return ways;
}

}  // namespace

std::vector<Shard> Joinable(std::vector<Shard> shards) {
  for (Shard& shard : shards) {
    if (shard.shape.empty()) shard.shape = {1};
  }
  return shards;
}

std::optional<LayoutPair> PlaceByPlace(const ShardSet& a, const ShardSet& b) {
  if (a.shards.size() != b.shards.size() || a.shards.size() < 2) return std::nullopt;
  const Topology& topology_a = a.topology.is_unknown() ? b.topology : a.topology;
  const Topology& topology_b = b.topology.is_unknown() ? a.topology : b.topology;
  const ShardsByPlace places_a = ByPlace(a.shards, topology_a);
  if (!LieAlike(a, places_a, b, ByPlace(b.shards, topology_b))) return std::nullopt;
  const std::vector<std::string> sharing = AxesThatShare(a, places_a, topology_a);
  const std::vector<Shard> of_a = sharing.empty() ? a.shards : Joinable(a.shards);
  const std::vector<Shard> of_b = sharing.empty() ? b.shards : Joinable(b.shards);
  for (const Dims& dims : WaysToJoin(a, topology_a, sharing, of_a.front().shape.size())) {
    auto left = PlanUnshard(of_a, dims, topology_a), right = PlanUnshard(of_b, dims, topology_b);
    if (left.ok() && right.ok() && left->shape == right->shape)
      return LayoutPair{Planned(*std::move(left)), Planned(*std::move(right))};
  }
  return std::nullopt;
}

}  // namespace tdump::compare
