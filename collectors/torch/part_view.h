// PartView: where a rule keeps no more of a strided tensor than a slice, or a sample, only that is
// copied. Plain memory, no LibTorch, no allocation.
#pragma once

#include <array>
#include <cstdint>

#include "collectors/torch/strided_copy.h"
#include "core/plan.h"
#include "core/types.h"

namespace tdump::collectors {

// Borrows what `whole` points to.
class PartView {
 public:
  static constexpr size_t kMaxDims = 64;

  // `longest`: bytes of a copy in one piece; a sample that is longer is taken from the whole.
  PartView(const Keep& keep, const StridedView& whole, uint64_t longest);

  // kWhole: everything is needed (or there are too many dimensions for this), view() is `whole`.
  Content content() const { return content_; }
  uint64_t bytes() const { return bytes_; }  // of the copy, unless kWhole
  // The slice as a view of its own; the whole tensor for kWhole and kSample.
  const StridedView& view() const { return view_; }
  // Writes the copy.
  void CopyTo(std::byte* out) const;

 private:
  void TakeSlice(const Keep& keep);
  void CopySample(std::byte* out) const;

  Content content_ = Content::kWhole;
  StridedView view_;
  uint64_t bytes_ = 0;
  uint64_t sample_ = 0;  // units
  uint64_t numel_ = 1;
  std::array<int64_t, kMaxDims> sizes_, strides_;
};

}  // namespace tdump::collectors
