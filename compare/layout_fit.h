// FitsOf: how a whole tensor may be the other side's, whose shape is another: dimensions in another
// order, fused or taken apart, padded.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compare/rearrange.h"

namespace tdump::compare {

struct Fit {
  std::optional<Rearrangement> rearrangement;  // after cropping
  Shape crop;                                  // empty: nothing is cropped
  std::string how;                             // empty: as it is
  int cost = 0;                                // the larger, the less likely
};

// Likeliest first; none when the shapes cannot be of one tensor. `vocabulary`: padding to a
// multiple of `ranks` and more is usual; otherwise by less than `ranks`.
std::vector<Fit> FitsOf(const Shape& shape, const Shape& whole, bool vocabulary, size_t ranks);

}  // namespace tdump::compare
