// StridedPieces: the canonical form of a strided tensor (collectors/torch/strided_copy.h), a range
// of bytes at a time: how a tensor larger than the sink's arena is copied.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectors/torch/strided_copy.h"
#include "core/sink.h"

namespace tdump::collectors {

// Borrows what `view` points to. One thread.
class StridedPieces final : public PieceSource {
 public:
  StridedPieces(const StridedView& view, NumberKind kind, bool conj, bool neg);

  // `offset` and the length of `out` are multiples of the unit.
  bool CopyTo(uint64_t offset, std::span<std::byte> out) noexcept override;

 private:
  void CopyRange(size_t dim, const std::byte* from, uint64_t first, uint64_t count,
                 std::byte* out) const;

  const std::byte* data_;
  const uint32_t unit_bytes_;
  const NumberKind kind_;
  const bool conj_, neg_;
  std::vector<int64_t> sizes_, strides_;  // of the dimensions that count
  std::vector<uint64_t> inner_;           // units of one index of each
};

}  // namespace tdump::collectors
