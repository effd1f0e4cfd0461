// ChannelSums: the sum of b - a for each index of the last dimension. Internal to compare/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compare/bfloat16_tile.h"

namespace tdump::compare {

// Terms are added in the order they come. Not thread-safe.
class ChannelSums {
 public:
  explicit ChannelSums(uint64_t channels) : channels_(channels) {}  // 0: none are kept

  bool empty() const { return channels_ == 0; }
  void Start();
  // Of element `index`, and of the n elements from `first` on.
  void Add(uint64_t index, double error) { sums_[PlaceOf(index % channels_)] += error; }
  void Add(const double* errors, size_t n, uint64_t first);
  // Whether ForTile may be used. Precondition: tiles begin at multiples of kBFloat16Block.
  bool FitTiles() const { return channels_ % kBFloat16Block == 0; }
  TileChannels ForTile(uint64_t first);
  // By index. Nothing is added after it until Start.
  std::vector<double>& Finish();

 private:
  uint64_t PlaceOf(uint64_t channel) const { return split_ ? PlaceInBlock(channel) : channel; }

  uint64_t channels_;
  bool split_ = false;  // since a tile of bfloat16: even ones first in every block
  std::vector<double> sums_, moved_;
};

}  // namespace tdump::compare
