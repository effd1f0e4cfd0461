// Copies a strided tensor into its canonical form: logical elements in row-major order, stride-0
// dimensions once, conj and neg resolved. Plain memory, no LibTorch: nothing here can be seen by a
// dispatcher, an RNG or autograd.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tdump::collectors {

// A strided view. `data` is its first element; sizes and strides (>= 0, in units) have the same
// length. The caller guarantees that every element addressed lies in memory it may read.
// Overlapping elements are fine.
struct StridedView {
  const std::byte* data = nullptr;
  std::span<const int64_t> sizes;
  std::span<const int64_t> strides;
  uint32_t unit_bytes = 0;
};

// Writes the canonical form (PayloadBytes of it) to `out`. Does nothing for an empty view.
void CopyStrided(const StridedView& view, std::byte* out);

enum class NumberKind : uint8_t { kInteger, kFloat, kComplex };

// Resolves lazy conjugation and negation in canonical form: sign bits for floats, two's complement
// for integers. `unit_bytes` is the width of one element (both components of a complex one). False:
// this width has no such form.
bool ResolveSigns(std::span<std::byte> data, uint32_t unit_bytes, NumberKind kind, bool conj,
                  bool neg);

}  // namespace tdump::collectors
