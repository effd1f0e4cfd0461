#include "compare/foreign/gather.h"

#include <algorithm>
#include <cstring>

namespace tdump::compare::foreign {
namespace {

constexpr uint64_t kBlockBytes = 4 << 20;
// Elements further apart than this are read one by one.
constexpr uint64_t kWindowBytes = 64 * 1024;

class Gatherer {
 public:
  Gatherer(Bytes storage, uint32_t unit_bytes, uint64_t first, std::vector<GatherDim> dims)
      : storage_(std::move(storage)),
        unit_bytes_(unit_bytes),
        first_(first),
        dims_(std::move(dims)) {
    // Blocks are rows of `split_` with everything below it.
    const uint64_t most = std::max<uint64_t>(1, kBlockBytes / unit_bytes_);
    split_ = dims_.size() - 1;
    while (split_ > 0 && inner_ * dims_[split_].size <= most) inner_ *= dims_[split_--].size;
    rows_ = std::clamp<uint64_t>(most / inner_, 1, dims_[split_].size);
  }

  Status Read(uint64_t offset, std::span<std::byte> out) {
    if (offset % unit_bytes_ != 0 || out.size() % unit_bytes_ != 0)
      return Internal("a read of a part of an element");
    uint64_t unit = offset / unit_bytes_;
    while (!out.empty()) {
      if (unit < begin_ || unit >= end_) TDUMP_RETURN_IF_ERROR(Fill(unit));
      const uint64_t at = (unit - begin_) * unit_bytes_;
      const size_t count = std::min<uint64_t>(out.size(), block_.size() - at);
      std::memcpy(out.data(), block_.data() + at, count);
      out = out.subspan(count);
      unit += count / unit_bytes_;
    }
    return {};
  }

 private:
  struct Axis {
    uint64_t size, from, to;  // elements; steps in the storage and in the block
  };

  // The block that holds `unit`.
  Status Fill(uint64_t unit) {
    const uint64_t size = dims_[split_].size;
    uint64_t outer = unit / inner_ / size;
    const uint64_t row = unit / inner_ % size / rows_ * rows_;
    const uint64_t rows = std::min(rows_, size - row);
    begin_ = (outer * size + row) * inner_;
    end_ = begin_;
    uint64_t base = first_ + row * dims_[split_].stride;
    for (size_t i = split_; i-- > 0; outer /= dims_[i].size)
      base += outer % dims_[i].size * dims_[i].stride;
    std::vector<Axis> axes;
    uint64_t step = 1;
    for (size_t i = dims_.size(); i-- > split_; step *= axes.back().size)
      axes.push_back({i == split_ ? rows : dims_[i].size, dims_[i].stride, step});
    std::stable_sort(axes.begin(), axes.end(),
                     [](const Axis& a, const Axis& b) { return a.from < b.from; });
    block_.resize(rows * inner_ * unit_bytes_);
    TDUMP_RETURN_IF_ERROR(FillFrom(base, axes));
    end_ = begin_ + rows * inner_;
    return {};
  }

  // Every run along the first axis, the other axes turning like an odometer.
  Status FillFrom(uint64_t base, const std::vector<Axis>& axes) {
    std::vector<uint64_t> index(axes.size(), 0);
    uint64_t from = base, to = 0;
    while (true) {
      TDUMP_RETURN_IF_ERROR(ReadRun(axes[0], from, to));
      size_t i = 1;
      for (; i < axes.size(); ++i) {
        from += axes[i].from;
        to += axes[i].to;
        if (++index[i] < axes[i].size) break;
        from -= axes[i].from * axes[i].size;
        to -= axes[i].to * axes[i].size;
        index[i] = 0;
      }
      if (i >= axes.size()) return {};
    }
  }

  Status ReadRun(const Axis& axis, uint64_t from, uint64_t to) {
    const uint64_t stride_bytes = axis.from * unit_bytes_;
    const uint64_t together = std::max<uint64_t>(1, kWindowBytes / stride_bytes);
    for (uint64_t i = 0; i < axis.size; i += together) {
      const uint64_t count = std::min(together, axis.size - i);
      window_.resize((count - 1) * stride_bytes + unit_bytes_);
      TDUMP_RETURN_IF_ERROR(storage_->ReadAt((from + i * axis.from) * unit_bytes_, window_));
      for (uint64_t k = 0; k < count; ++k)
        std::memcpy(block_.data() + (to + (i + k) * axis.to) * unit_bytes_,
                    window_.data() + k * stride_bytes, unit_bytes_);
    }
    return {};
  }

  Bytes storage_;
  uint64_t unit_bytes_, first_;
  std::vector<GatherDim> dims_;
  size_t split_;
  uint64_t inner_ = 1, rows_ = 1;
  std::vector<std::byte> block_, window_;
  uint64_t begin_ = 0, end_ = 0;  // units of the block
};

}  // namespace

ReadBytes Gather(Bytes storage, uint32_t unit_bytes, uint64_t first, std::vector<GatherDim> dims) {
  auto gatherer =
      std::make_shared<Gatherer>(std::move(storage), unit_bytes, first, std::move(dims));
  return
      [gatherer](uint64_t offset, std::span<std::byte> out) { return gatherer->Read(offset, out); };
}

}  // namespace tdump::compare::foreign
