// ScaleGrid: which of a quantised tensor's scales holds for which of its elements.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tdump::compare {

// A scale of one element is for the whole tensor; `axis` says which dimension has one each; else
// dimension by dimension a scale is for size / scales elements, rounded up (blocks, rows, columns),
// or for as many as a power of two that fits all dimensions says: of 576 x 256 elements with 5 x 2
// scales 128 x 128 have one.
class ScaleGrid {
 public:
  // nullopt: scales of this shape cannot belong to a tensor of that one.
  static std::optional<ScaleGrid> Fit(const std::vector<uint64_t>& tensor,
                                      const std::vector<uint64_t>& scales,
                                      std::optional<uint64_t> axis);

  // Index among the scales for `count` elements from `first` on, in row-major order.
  void Indices(uint64_t first, std::span<uint64_t> indices) const;
  // False of even parts that blocks of a power of two would have been as well, the last ones cut:
  // of 192 x 192 elements 2 x 2 scales may have 96 x 96 each, or 128 x 128.
  bool IsCertain() const { return is_certain_; }
  // "per tensor", "per channel 0", "per block of [128, 128]".
  std::string text() const { return text_; }

 private:
  std::vector<uint64_t> sizes_, block_, step_;  // step: of the scale's index, 0 where it is shared
  std::string text_;
  bool is_certain_ = true;
};

}  // namespace tdump::compare
