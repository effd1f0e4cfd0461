#include "collectors/torch/part_view.h"

#include <cstring>

#include "core/slice.h"

namespace tdump::collectors {

PartView::PartView(const Keep& keep, const StridedView& whole, uint64_t longest) : view_(whole) {
  const Parts parts = keep.parts & ~kPartMeta;
  if (whole.sizes.size() > kMaxDims) return;
  if (parts == kPartSlice) {
    TakeSlice(keep);
    return;
  }
  if (parts != kPartSample) return;
  for (int64_t size : whole.sizes) numel_ *= static_cast<uint64_t>(size);
  sample_ = SampleSize(keep.sample, numel_);
  bytes_ = sample_ * whole.unit_bytes;
  if (bytes_ <= longest) content_ = Content::kSample;
}

void PartView::TakeSlice(const Keep& keep) {
  const StridedView whole = view_;
  bytes_ = whole.unit_bytes;
  for (size_t dim = 0; dim < whole.sizes.size(); ++dim) {
    const SlicedDim part = ResolveDim(keep.slice, dim, whole.sizes[dim]);
    sizes_[dim] = part.size;
    strides_[dim] = whole.strides[dim] * part.step;
    if (part.size == 0) bytes_ = 0;
    if (part.size != 0 && whole.strides[dim] != 0) bytes_ *= static_cast<uint64_t>(part.size);
    // Not beyond the end where nothing is left of the dimension.
    if (part.size != 0 && view_.data != nullptr)
      view_.data += part.begin * whole.strides[dim] * whole.unit_bytes;
  }
  view_.sizes = {sizes_.data(), whole.sizes.size()};
  view_.strides = {strides_.data(), whole.sizes.size()};
  content_ = Content::kSlice;
}

void PartView::CopyTo(std::byte* out) const {
  if (content_ == Content::kSample)
    CopySample(out);
  else
    CopyStrided(view_, out);
}

void PartView::CopySample(std::byte* out) const {
  for (uint64_t k = 0; k < sample_; ++k, out += view_.unit_bytes) {
    uint64_t index = SampleIndex(k, sample_, numel_);
    const std::byte* from = view_.data;
    for (size_t dim = view_.sizes.size(); dim-- > 0;) {
      const auto size = static_cast<uint64_t>(view_.sizes[dim]);
      from += static_cast<int64_t>(index % size) * view_.strides[dim] * view_.unit_bytes;
      index /= size;
    }
    std::memcpy(out, from, view_.unit_bytes);
  }
}

}  // namespace tdump::collectors
