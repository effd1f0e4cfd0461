// MomentsTree: merges the moments of tiles, given in order, in the order that
// core/statistics_tile.h defines (step 5). Plain data; allocates nothing.
#pragma once

#include <array>
#include <cstdint>

#include "core/statistics_tile.h"

namespace tdump {

class MomentsTree {
 public:
  void Add(TileMoments node) {
    for (uint64_t carry = tiles_++; (carry & 1) != 0; carry >>= 1)
      node = Merge(nodes_[--depth_], node);
    nodes_[depth_++] = node;
  }
  // Of everything added. Leaves the tree as if nothing had been.
  TileMoments Finish() {
    TileMoments all;
    for (bool last = true; depth_ > 0; last = false) {
      const TileMoments& node = nodes_[--depth_];
      all = last ? node : Merge(node, all);
    }
    tiles_ = 0;
    return all;
  }

 private:
  std::array<TileMoments, 64> nodes_;  // complete subtrees, one for each set bit of tiles_
  int depth_ = 0;                      // nodes
  uint64_t tiles_ = 0;
};

}  // namespace tdump
