// BoxGrid: which box of a tensor holds an index, for boxes that cover it exactly once.
#pragma once

#include <cstdint>
#include <vector>

#include "compare/tensor_source.h"

namespace tdump::compare {

// Immutable. The cells between all edges of all boxes, and the box of each.
class BoxGrid {
 public:
  // Errors (kInvalidArgument): the boxes overlap, leave a hole, reach beyond the tensor; they are
  // too many. Precondition: no box is empty, each has the tensor's number of dimensions.
  static Result<BoxGrid> Make(const Shape& shape, const std::vector<Box>& boxes);

  // Precondition: inside the tensor.
  size_t BoxAt(const Shape& index) const;

 private:
  size_t CutOf(size_t dim, uint64_t position) const;  // the cell that starts at or before it
  Status Fill(const std::vector<Box>& boxes, size_t box);
  Shape CornerOf(size_t cell) const;

  std::vector<Shape> cuts_;      // of each dimension: where cells start
  std::vector<size_t> strides_;  // of the cells
  std::vector<uint32_t> boxes_;  // by cell
};

}  // namespace tdump::compare
