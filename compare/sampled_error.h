// Samples of tensors, by which inference of layouts tells how far two are apart, and whether
// summands are copies (compare/infer_layout.h).
//
// A sample is blocks spread evenly. Where these hold hardly anything but zeros, as of the gradient
// of an embedding of which a step used few rows, all is read to find what is not zero.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compare/tensor_source.h"

namespace tdump::compare {

// The blocks of one tensor that hold anything but zeros, found once. Not thread-safe.
class NumberBlocks {
 public:
  // First units of them; of many, some that are spread over all. Reads the whole tensor at the
  // first call, and never again: `tensor` is the same each time.
  Result<std::span<const uint64_t>> Of(TensorSource& tensor);

 private:
  std::optional<std::vector<uint64_t>> first_units_;
};

// SampledError of compare/infer_layout.h, for callers that ask of the same tensor again.
Result<double> SampledError(TensorSource& a, TensorSource& b, NumberBlocks* of_a,
                            NumberBlocks* of_b);

}  // namespace tdump::compare
