// PlaceByPlace: two sides whose ranks lie alike, each shard against that of the same place.
#pragma once

#include <optional>
#include <vector>

#include "compare/resolve_layout.h"

namespace tdump::compare {

struct LayoutPair {
  LayoutCandidate a, b;
};

// Where both have shards at the same places of the same axes, pair by pair of one shape: the layout
// of both that joins them in one way, which pairs every element with that of the same place,
// whatever the tensor looks like. Along an axis on which A holds equal copies, or nothing tells
// whether it does, they are copies; along others they are joined. None where they do not lie alike.
// An unknown topology is taken for that of the other side. Reads the shards of A that have no hash.
std::optional<LayoutPair> PlaceByPlace(const ShardSet& a, const ShardSet& b);

// Single numbers as tensors of one element, which can be joined; others as they are.
std::vector<Shard> Joinable(std::vector<Shard> shards);

}  // namespace tdump::compare
