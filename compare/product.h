// The product of the sizes of a shape, where it is known to fit in 64 bits: of a tensor that was
// planned, or is there. Of others: UnitsOf in compare/tensor_source.h.
#pragma once

#include <cstdint>
#include <vector>

namespace tdump::compare {

inline uint64_t ProductOf(const std::vector<uint64_t>& shape) {
  uint64_t units = 1;
  for (const uint64_t size : shape) units *= size;
  return units;
}

}  // namespace tdump::compare
