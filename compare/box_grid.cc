#include "compare/box_grid.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tdump::compare {
namespace {

constexpr size_t kMaxCells = kMaxBoxes * 4;
constexpr uint32_t kNoBox = ~uint32_t{0};

Status CheckInside(const Shape& shape, const Box& box) {
  for (size_t i = 0; i < shape.size(); ++i) {
    if (box.size[i] <= shape[i] && box.begin[i] <= shape[i] - box.size[i]) continue;
    return InvalidArgument(fmt::format("a piece at [{}] of size [{}] reaches beyond [{}]",
                                       fmt::join(box.begin, ", "), fmt::join(box.size, ", "),
                                       fmt::join(shape, ", ")));
  }
  return {};
}

Status TooMany(size_t boxes) {
  return Status(StatusCode::kUnsupported,
                fmt::format("the tensor is cut into too many pieces ({})", boxes));
}

}  // namespace

Result<BoxGrid> BoxGrid::Make(const Shape& shape, const std::vector<Box>& boxes) {
  if (boxes.size() > kMaxBoxes) return TooMany(boxes.size());
  BoxGrid grid;
  for (const Box& box : boxes) TDUMP_RETURN_IF_ERROR(CheckInside(shape, box));
  size_t cells = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    Shape cuts = {0};
    for (const Box& box : boxes) {
      cuts.push_back(box.begin[i]);
      if (box.begin[i] + box.size[i] < shape[i]) cuts.push_back(box.begin[i] + box.size[i]);
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    if (cuts.size() > kMaxCells / cells) return TooMany(boxes.size());
    cells *= cuts.size();
    grid.cuts_.push_back(std::move(cuts));
  }
  grid.strides_.assign(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    grid.strides_[i - 1] = grid.strides_[i] * grid.cuts_[i].size();
  grid.boxes_.assign(cells, kNoBox);
  for (size_t i = 0; i < boxes.size(); ++i) TDUMP_RETURN_IF_ERROR(grid.Fill(boxes, i));
  const auto hole = std::find(grid.boxes_.begin(), grid.boxes_.end(), kNoBox);
  if (hole != grid.boxes_.end()) {
    const Shape at = grid.CornerOf(static_cast<size_t>(hole - grid.boxes_.begin()));
    return InvalidArgument(fmt::format("no piece holds element [{}] of [{}]", fmt::join(at, ", "),
                                       fmt::join(shape, ", ")));
  }
  return grid;
}

size_t BoxGrid::CutOf(size_t dim, uint64_t position) const {
  const Shape& cuts = cuts_[dim];
  return static_cast<size_t>(std::upper_bound(cuts.begin(), cuts.end(), position) - cuts.begin()) -
         1;
}

size_t BoxGrid::BoxAt(const Shape& index) const {
  size_t cell = 0;
  for (size_t i = 0; i < index.size(); ++i) cell += CutOf(i, index[i]) * strides_[i];
  return boxes_[cell];
}

Shape BoxGrid::CornerOf(size_t cell) const {
  Shape corner;
  for (size_t i = 0; i < strides_.size(); ++i) {
    corner.push_back(cuts_[i][cell / strides_[i]]);
    cell %= strides_[i];
  }
  return corner;
}

// Every cell of a box, as an odometer over its dimensions.
Status BoxGrid::Fill(const std::vector<Box>& boxes, size_t box) {
  const size_t rank = strides_.size();
  std::vector<size_t> low(rank), high(rank);
  for (size_t i = 0; i < rank; ++i) {
    low[i] = CutOf(i, boxes[box].begin[i]);
    high[i] = CutOf(i, boxes[box].begin[i] + boxes[box].size[i] - 1);
  }
  for (std::vector<size_t> at = low;;) {
    size_t cell = 0;
    for (size_t i = 0; i < rank; ++i) cell += at[i] * strides_[i];
    if (boxes_[cell] != kNoBox)
      return InvalidArgument(
          fmt::format("two pieces hold element [{}]", fmt::join(CornerOf(cell), ", ")));
    boxes_[cell] = static_cast<uint32_t>(box);
    size_t dim = rank;
    while (dim > 0 && at[dim - 1] == high[dim - 1]) at[dim - 1] = low[dim - 1], --dim;
    if (dim == 0) return {};
    ++at[dim - 1];
  }
}

}  // namespace tdump::compare
