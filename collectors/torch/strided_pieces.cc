#include "collectors/torch/strided_pieces.h"

#include <algorithm>
#include <cstring>

namespace tdump::collectors {

StridedPieces::StridedPieces(const StridedView& view, NumberKind kind, bool conj, bool neg)
    : data_(view.data), unit_bytes_(view.unit_bytes), kind_(kind), conj_(conj), neg_(neg) {
  for (size_t i = 0; i < view.sizes.size(); ++i) {
    if (view.sizes[i] == 1 || view.strides[i] == 0) continue;
    sizes_.push_back(view.sizes[i]);
    strides_.push_back(view.strides[i]);
  }
  inner_.assign(sizes_.size(), 1);
  for (size_t i = sizes_.size(); i > 1; --i)
    inner_[i - 2] = inner_[i - 1] * static_cast<uint64_t>(sizes_[i - 1]);
}

bool StridedPieces::CopyTo(uint64_t offset, std::span<std::byte> out) noexcept {
  if (offset % unit_bytes_ != 0 || out.size() % unit_bytes_ != 0) return false;
  try {
    CopyRange(0, data_, offset / unit_bytes_, out.size() / unit_bytes_, out.data());
    return ResolveSigns(out, unit_bytes_, kind_, conj_, neg_);
  } catch (...) {  // out of memory
    return false;
  }
}

// Units [first, first + count) of the view of the dimensions from `dim` on: the end of a row that
// begins before, whole rows in one copy, the beginning of a last row.
void StridedPieces::CopyRange(size_t dim, const std::byte* from, uint64_t first, uint64_t count,
                              std::byte* out) const {
  if (count == 0) return;
  if (dim == sizes_.size()) {
    std::memcpy(out, from, unit_bytes_);
    return;
  }
  const uint64_t inner = inner_[dim];
  const auto row = [&](uint64_t i) {
    return from + static_cast<int64_t>(i) * strides_[dim] * int64_t{unit_bytes_};
  };
  if (const uint64_t begun = first % inner; begun != 0) {
    const uint64_t take = std::min(count, inner - begun);
    CopyRange(dim + 1, row(first / inner), begun, take, out);
    first += take;
    count -= take;
    out += take * unit_bytes_;
  }
  const uint64_t rows = count / inner;
  if (rows != 0) {
    std::vector<int64_t> sizes(sizes_.begin() + static_cast<std::ptrdiff_t>(dim), sizes_.end());
    sizes[0] = static_cast<int64_t>(rows);
    CopyStrided({row(first / inner), sizes, std::span(strides_).subspan(dim), unit_bytes_}, out);
    first += rows * inner;
    out += rows * inner * unit_bytes_;
  }
  CopyRange(dim + 1, row(first / inner), 0, count - rows * inner, out);
}

}  // namespace tdump::collectors
