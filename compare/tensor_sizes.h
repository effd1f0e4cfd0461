// TensorSizes: how large the two tensors of an outcome are, for what is made of them
// (compare/gradient_sums.h).
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "compare/gradient_sums.h"
#include "compare/pass_diff.h"

namespace tdump::compare {

// Not thread-safe. The pass outlives it; its outcomes are measured.
class TensorSizes {
 public:
  explicit TensorSizes(const PassDiff* pass) : pass_(pass) {}

  // None: of several shapes, no real numbers, or not to be read. Of tensors that are equal the
  // payload is read once where no statistics were kept.
  std::optional<TensorSize> Of(uint32_t outcome);

 private:
  std::optional<TensorSize> Find(const Outcome& outcome) const;

  const PassDiff* pass_;
  std::unordered_map<uint32_t, std::optional<TensorSize>> found_;
};

}  // namespace tdump::compare
