// Character-level training text: the file in memory as token ids.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>

namespace tp {

// `inputs` and `targets` are int64 [batch, context]; a target is the
// character that follows its input.
struct Batch {
  torch::Tensor inputs;
  torch::Tensor targets;
};

// The characters of a file as numbers. Immutable once made.
class Text {
 public:
  // Reads the file; the vocabulary is its distinct bytes, sorted. Throws
  // std::runtime_error if it cannot be read.
  explicit Text(const std::string& path);

  int64_t vocabulary_size() const { return vocabulary_size_; }

  // `batch` windows of `context` characters at random places, drawn from torch's default generator:
  // ranks with the same seed draw the same batch.
  Batch Sample(int64_t batch, int64_t context) const;

 private:
  torch::Tensor tokens_;  // int64 [length]
  int64_t vocabulary_size_;
};

}  // namespace tp
