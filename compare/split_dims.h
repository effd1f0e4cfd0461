// SplitDims: the dimensions of Dims taken apart as far as ranks share them, so that every axis
// splits one of them as a whole.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compare/tensor_source.h"
#include "core/status.h"
#include "settings/dims.h"

namespace tdump::compare {

struct SplitDim {
  std::string name;              // "h"; of a fused dimension that is split as a whole "(b s)"
  std::optional<uint64_t> size;  // of the whole tensor
  std::vector<AxisUse> axes;
  size_t dim = 0;  // of the tensor
};

// `rank`: the tensor's number of dimensions. Error: the dims have another.
Result<std::vector<SplitDim>> SplitDimsOf(const Dims& dims, size_t rank, const SizeTable& sizes);

// Sizes of the split dimensions of what a rank holds; `places`: of ranks that share each. Error:
// the size of a part of a fused dimension is not known, or does not divide it.
Result<Shape> LocalSizes(const std::vector<SplitDim>& dims, const Shape& shape,
                         const std::vector<uint64_t>& places);

}  // namespace tdump::compare
