// Split: how the ranks of some axes share one dimension, as pieces in the order of the whole.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "settings/dims.h"

namespace tdump::compare {

// Units [offset, offset + size) of what a rank holds of the dimension. `leaf` counts the places on
// the axes, the innermost fastest.
struct Piece {
  uint64_t size = 0;
  size_t leaf = 0;
  uint64_t offset = 0;
  bool operator==(const Piece&) const = default;
};

// `axis_sizes`: of each of `uses`. `held`: units that each leaf holds. Without a use: one leaf.
// Boundaries that the text leaves open are those of n pieces that differ by at most one unit, the
// longer first (numpy.array_split), else of pieces as long as possible (torch.chunk), whichever
// gives what the ranks hold; zig-zag halves of each rank's units if neither does.
// Errors (kInvalidArgument): the lengths do not fit, a table is missing, too many pieces.
Result<std::vector<Piece>> SplitPieces(const std::vector<AxisUse>& uses,
                                       const std::vector<uint32_t>& axis_sizes,
                                       const std::vector<uint64_t>& held, const SizeTable& sizes);

}  // namespace tdump::compare
