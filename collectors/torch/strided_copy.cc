#include "collectors/torch/strided_copy.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace tdump::collectors {
namespace {

struct Dim {
  int64_t size;
  int64_t stride;  // units
};

constexpr size_t kInlineDims = 16;  // more only ever comes from a deliberately odd view

// Writes the dimensions that move the read position to `dims`, adjacent ones merged where one row
// follows the other in memory, and their number to `count`. Size 1 and stride 0 contribute nothing.
// Returns false when the view has no element.
bool Normalise(const StridedView& view, Dim* dims, size_t* count) {
  size_t n = 0;
  for (size_t i = 0; i < view.sizes.size(); ++i) {
    const Dim dim{view.sizes[i], view.strides[i]};
    if (dim.size == 0) return false;
    if (dim.size == 1 || dim.stride == 0) continue;
    if (n > 0 && dims[n - 1].stride == dim.stride * dim.size) {
      dims[n - 1] = {dims[n - 1].size * dim.size, dim.stride};
    } else {
      dims[n++] = dim;
    }
  }
  *count = n;
  return true;
}

// Fixed-size memcpy: one load and one store, whatever the alignment of a view may be.
template <size_t kBytes>
void CopyRow(const std::byte* from, int64_t count, int64_t step, std::byte* to) {
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * kBytes, from + i * step, kBytes);
}

// out[i][j] = in[j * row + i * kBytes]: reads and writes stay within a
// tile that fits the first-level cache.
template <size_t kBytes>
void CopyTransposed(const std::byte* from, int64_t rows, int64_t columns, int64_t step,
                    std::byte* to) {
  constexpr int64_t kTile = 32;
  for (int64_t i0 = 0; i0 < rows; i0 += kTile) {
    for (int64_t j0 = 0; j0 < columns; j0 += kTile) {
      const int64_t i1 = std::min(rows, i0 + kTile), j1 = std::min(columns, j0 + kTile);
      for (int64_t i = i0; i < i1; ++i) {
        for (int64_t j = j0; j < j1; ++j) {
          std::memcpy(to + (i * columns + j) * kBytes, from + j * step + i * kBytes, kBytes);
        }
      }
    }
  }
}

// Walks the outer dimensions like an odometer and calls `block` with the
// read position of each innermost block.
template <class Block>
void ForEachBlock(const std::byte* from, std::span<const Dim> outer, int64_t unit, Block block) {
  std::array<int64_t, kInlineDims> inline_index{};
  std::vector<int64_t> heap_index(outer.size() > kInlineDims ? outer.size() : 0);
  int64_t* index = heap_index.empty() ? inline_index.data() : heap_index.data();
  for (;;) {
    block(from);
    size_t d = outer.size();
    while (d > 0) {
      --d;
      from += outer[d].stride * unit;
      if (++index[d] < outer[d].size) break;
      from -= outer[d].stride * outer[d].size * unit;
      index[d] = 0;
      if (d == 0) return;
    }
    if (outer.empty()) return;
  }
}

template <size_t kBytes>
void CopyUnits(const std::byte* from, std::span<const Dim> dims, std::byte* to) {
  const Dim last = dims.back();
  const bool transposed = dims.size() >= 2 && dims[dims.size() - 2].stride == 1 && last.stride != 1;
  if (transposed) {
    const int64_t rows = dims[dims.size() - 2].size;
    ForEachBlock(from, dims.first(dims.size() - 2), kBytes, [&](const std::byte* block) {
      CopyTransposed<kBytes>(block, rows, last.size, last.stride * int64_t{kBytes}, to);
      to += rows * last.size * kBytes;
    });
    return;
  }
  ForEachBlock(from, dims.first(dims.size() - 1), kBytes, [&](const std::byte* row) {
    if (last.stride == 1)
      std::memcpy(to, row, last.size * kBytes);
    else
      CopyRow<kBytes>(row, last.size, last.stride * int64_t{kBytes}, to);
    to += last.size * kBytes;
  });
}

void CopyAnyUnits(const std::byte* from, std::span<const Dim> dims, int64_t unit, std::byte* to) {
  ForEachBlock(from, dims, unit, [&](const std::byte* element) {
    std::memcpy(to, element, unit);
    to += unit;
  });
}

// Flips the sign bit of the components chosen by (even, odd) position;
// little-endian, so it is in the last byte.
void FlipSigns(std::span<std::byte> data, size_t component_bytes, bool even, bool odd) {
  bool is_odd = false;
  for (size_t i = component_bytes - 1; i < data.size(); i += component_bytes, is_odd = !is_odd) {
    if (is_odd ? odd : even) data[i] ^= std::byte{0x80};
  }
}

template <class Unsigned>
void Negate(std::span<std::byte> data) {
  for (size_t i = 0; i + sizeof(Unsigned) <= data.size(); i += sizeof(Unsigned)) {
    Unsigned value;
    std::memcpy(&value, data.data() + i, sizeof value);
    value = static_cast<Unsigned>(Unsigned{0} - value);
    std::memcpy(data.data() + i, &value, sizeof value);
  }
}

}  // namespace

void CopyStrided(const StridedView& view, std::byte* out) {
  std::array<Dim, kInlineDims> inline_dims;
  std::vector<Dim> heap_dims(view.sizes.size() > kInlineDims ? view.sizes.size() : 0);
  Dim* const found = heap_dims.empty() ? inline_dims.data() : heap_dims.data();
  size_t count = 0;
  if (!Normalise(view, found, &count)) return;
  const std::span<const Dim> dims(found, count);
  if (dims.empty()) {
    std::memcpy(out, view.data, view.unit_bytes);
    return;
  }
  if (dims.size() == 1 && dims[0].stride == 1) {
    std::memcpy(out, view.data, static_cast<size_t>(dims[0].size) * view.unit_bytes);
    return;
  }
  switch (view.unit_bytes) {
    case 1:
      return CopyUnits<1>(view.data, dims, out);
    case 2:
      return CopyUnits<2>(view.data, dims, out);
    case 4:
      return CopyUnits<4>(view.data, dims, out);
    case 8:
      return CopyUnits<8>(view.data, dims, out);
    case 16:
      return CopyUnits<16>(view.data, dims, out);
    default:
      return CopyAnyUnits(view.data, dims, view.unit_bytes, out);
  }
}

bool ResolveSigns(std::span<std::byte> data, uint32_t unit_bytes, NumberKind kind, bool conj,
                  bool neg) {
  if (!conj && !neg) return true;
  switch (kind) {
    case NumberKind::kComplex:
      // conj negates the imaginary component, neg both.
      FlipSigns(data, unit_bytes / 2, neg, neg != conj);
      return true;
    case NumberKind::kFloat:
      if (neg) FlipSigns(data, unit_bytes, true, true);
      return true;
    case NumberKind::kInteger:
      if (!neg) return true;
      if (unit_bytes == 1)
        Negate<uint8_t>(data);
      else if (unit_bytes == 2)
        Negate<uint16_t>(data);
      else if (unit_bytes == 4)
        Negate<uint32_t>(data);
      else if (unit_bytes == 8)
        Negate<uint64_t>(data);
      else
        return false;
      return true;
  }
  return false;
}

}  // namespace tdump::collectors
