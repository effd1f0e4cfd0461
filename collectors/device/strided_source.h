// StridedSource: a strided tensor on a device, reduced to what a copy needs. Plain data of fixed
// size, so that it can be handed to a kernel as it is.
#pragma once

#include <cstdint>
#include <span>

#include "collectors/torch/strided_copy.h"

namespace tdump::collectors {

struct StridedSource {
  static constexpr uint32_t kMaxDimensions = 16;

  uint64_t address = 0;  // first element
  uint64_t units = 1;    // of the canonical form
  uint32_t unit_bytes = 0;
  // Outermost first; without dimensions of size 1 and stride 0, neighbours that lie like one
  // dimension made one. None: a single unit.
  uint32_t dimensions = 0;
  uint64_t sizes[kMaxDimensions] = {};
  uint64_t strides[kMaxDimensions] = {};  // units
  // Applied to each unit: two's complement negation (integers), or these bits flipped.
  uint32_t negate = 0;
  uint64_t flip[2] = {};  // low and high 8 bytes of a unit

  uint64_t bytes() const { return units * unit_bytes; }
  // The canonical form lies in memory as it is.
  bool plain() const {
    return (dimensions == 0 || (dimensions == 1 && strides[0] == 1)) && negate == 0 &&
           (flip[0] | flip[1]) == 0;
  }
};

// False: more dimensions than fit, or a width whose signs cannot be resolved. Sizes > 0, strides >=
// 0, in units.
bool MakeStridedSource(uint64_t address, std::span<const int64_t> sizes,
                       std::span<const int64_t> strides, uint32_t unit_bytes, NumberKind kind,
                       bool conj, bool neg, StridedSource* source);

}  // namespace tdump::collectors
