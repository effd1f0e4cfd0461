#include "compare/scale_grid.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>

namespace tdump::compare {
namespace {

bool IsOfBlocks(uint64_t size, uint64_t scales) { return scales > 1 && scales < size; }

// The power of two that is the edge of the blocks in each dimension that has several, the last of
// which may be cut: quantisers take such.
struct CommonBlock {
  uint64_t edge = 0;       // 0: there is none
  bool is_likely = false;  // more than even parts

  // Where both fit, blocks of 128 are what quantisers take.
  bool is_taken() const { return is_likely || edge == 128; }
};
CommonBlock CommonBlockOf(const std::vector<uint64_t>& tensor,
                          const std::vector<uint64_t>& scales) {
  CommonBlock common;
  for (size_t i = 0; i < tensor.size(); ++i) {
    if (!IsOfBlocks(tensor[i], scales[i])) continue;
    const uint64_t least = (tensor[i] + scales[i] - 1) / scales[i];
    const uint64_t block = std::bit_ceil(least);
    if ((tensor[i] + block - 1) / block != scales[i] || (common.edge != 0 && block != common.edge))
      return {};
    common.edge = block;
    common.is_likely = common.is_likely || tensor[i] % scales[i] != 0 || block == least;
  }
  return common;
}

}  // namespace

std::optional<ScaleGrid> ScaleGrid::Fit(const std::vector<uint64_t>& tensor,
                                        const std::vector<uint64_t>& scales,
                                        std::optional<uint64_t> axis) {
  const uint64_t count =
      std::accumulate(scales.begin(), scales.end(), uint64_t{1}, std::multiplies<>());
  ScaleGrid grid;
  grid.sizes_ = tensor;
  grid.block_ = tensor;  // one block is everything
  for (uint64_t& block : grid.block_) block = std::max<uint64_t>(1, block);
  grid.step_.assign(tensor.size(), 0);
  grid.text_ = "per tensor";
  if (count == 1) return grid;
  if (count == 0 || tensor.empty()) return std::nullopt;
  std::vector<uint64_t> shape = scales;
  if (axis || shape.size() == 1) {
    const size_t first = axis.value_or(0);
    if (first >= tensor.size() || (axis && count != tensor[first])) return std::nullopt;
    size_t at = first;
    if (count != tensor[first]) at = tensor.size() - 1;
    if (count != tensor[at]) return std::nullopt;
    shape.assign(tensor.size(), 1);
    shape[at] = count;
    grid.text_ = fmt::format("per channel {}", at);
  }
  if (shape.size() != tensor.size()) return std::nullopt;
  const CommonBlock common = CommonBlockOf(tensor, shape);
  grid.is_certain_ = common.edge == 0 || common.is_likely;
  uint64_t step = 1;
  for (size_t i = tensor.size(); i-- > 0;) {
    if (shape[i] == 0 || shape[i] > tensor[i]) return std::nullopt;
    grid.block_[i] = (tensor[i] + shape[i] - 1) / shape[i];
    if (common.is_taken() && IsOfBlocks(tensor[i], shape[i])) grid.block_[i] = common.edge;
    if ((tensor[i] + grid.block_[i] - 1) / grid.block_[i] != shape[i]) return std::nullopt;
    if (shape[i] > 1) grid.step_[i] = step;
    step *= shape[i];
  }
  if (grid.text_ == "per tensor")
    grid.text_ = fmt::format("per block of [{}]", fmt::join(grid.block_, ", "));
  return grid;
}

void ScaleGrid::Indices(uint64_t first, std::span<uint64_t> indices) const {
  std::vector<uint64_t> at(sizes_.size(), 0);
  for (size_t i = sizes_.size(); i-- > 0;) {
    at[i] = first % std::max<uint64_t>(1, sizes_[i]);
    first /= std::max<uint64_t>(1, sizes_[i]);
  }
  if (at.empty()) {
    std::ranges::fill(indices, 0);
    return;
  }
  const size_t last = at.size() - 1;
  while (!indices.empty()) {
    uint64_t index = 0;
    for (size_t i = 0; i < at.size(); ++i) index += at[i] / block_[i] * step_[i];
    // All others of the block in this row have it too.
    const uint64_t run = std::min({block_[last] - at[last] % block_[last], sizes_[last] - at[last],
                                   uint64_t{indices.size()}});
    std::ranges::fill(indices.first(run), index);
    indices = indices.subspan(run);
    at[last] += run;
    for (size_t i = last; at[i] == sizes_[i]; --i) {
      at[i] = 0;
      if (i == 0) break;
      ++at[i - 1];
    }
  }
}

}  // namespace tdump::compare
