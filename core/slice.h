// Which elements a slice or a sample of a tensor is. Functions of the rule and the shape alone, so
// that two runs keep the same elements. Nothing allocates.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "core/plan.h"

namespace tdump {

// Of one dimension: elements begin, begin + step, ..., `size` of them.
struct SlicedDim {
  int64_t begin = 0;
  int64_t size = 0;
  int64_t step = 1;
  bool operator==(const SlicedDim&) const = default;
};

// As Python's slices: bounds below 0 count from the end, what lies outside is left out.
inline SlicedDim Resolve(const SliceRange& range, int64_t size) {
  const auto bound = [size](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
  };
  const int64_t begin = bound(range.begin), end = bound(range.end);
  // A longer step than the dimension picks the same elements, and its bytes might not be countable.
  const int64_t step = std::clamp<int64_t>(range.step, 1, std::max<int64_t>(size, 1));
  return {begin, end > begin ? (end - begin - 1) / step + 1 : 0, step};
}

// Dimensions behind the last range are whole; ranges behind the last dimension have no effect.
inline SlicedDim ResolveDim(std::span<const SliceRange> slice, size_t dim, int64_t size) {
  return Resolve(dim < slice.size() ? slice[dim] : SliceRange{}, size);
}

inline constexpr uint64_t kDefaultSample = 64;
inline constexpr uint64_t kMaxSample = 4096;

// A sample of `wanted` of `numel` elements: all if there are no more, else evenly spaced ones, the
// first and the last among them.
inline uint64_t SampleSize(uint64_t wanted, uint64_t numel) { return std::min(wanted, numel); }
// Index, in row-major order, of element k < size of the sample.
inline uint64_t SampleIndex(uint64_t k, uint64_t size, uint64_t numel) {
  if (size < 2) return 0;
  return static_cast<uint64_t>(static_cast<unsigned __int128>(k) * (numel - 1) / (size - 1));
}

}  // namespace tdump
