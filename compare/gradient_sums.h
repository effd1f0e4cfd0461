// GradientSums: how far the gradient of a parameter may be off however little is left of it.
//
//   1. The gradient of a bias is a sum over rows (tokens) of the operator's grad_output, that of a
//      weight one of products with what went in. Where the terms cancel next to nothing is left,
//      the error stays: the gradient of the bias of keys is 0 but for rounding, as softmax takes
//      away what all scores have in common.
//   2. Of n terms of rms r, each off by e: an element's mean square error is n (v r)^2 for its own
//      additions, rounded to v, and n e^2 for the errors of the terms; more where errors are the
//      same in all rows (ErrorLevel::common), which adds up.
//   3. The terms are those that were recorded of the same module before in this pass: gradients of
//      micro-batches accumulate. A term outside its bound counts with what it passed on.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "compare/bounds.h"

namespace tdump::compare {

// Of a sum whose terms may cancel.
struct SumError {
  uint64_t terms = 0;  // for one element; 0: not known
  double rms = 0;      // of the terms
  double error = 0;    // root mean square, of the sum
};

// Of both tensors of an observation.
struct TensorSize {
  std::vector<uint64_t> shape;  // in elements
  double rms_a = 0, rms_b = 0;
  double sum_roundoff = 0;  // of the type that sums of it are made in
  bool is_joined = false;   // of what several ranks hold
};

// Not thread-safe. Memory: some numbers for each term of the modules that are watched.
class GradientSums {
 public:
  // Of a sample; none: not known. Reads a payload where it has to.
  using SizeOf = std::function<std::optional<TensorSize>(size_t sample)>;

  void Watch(uint64_t path) { modules_[path]; }
  // `counted`: the error that counts for what follows; `common` is 0 where rows are not known.
  void AddInput(size_t sample, uint64_t path, const ErrorLevel& counted);
  void AddGradOutput(size_t sample, uint64_t path, const ErrorLevel& counted);

  // Of the gradient of a parameter of that module, a vector or a matrix of which every element is a
  // sum over rows. `norm`: vectors are multiplied with what went in, normalised.
  SumError ErrorOf(const TensorSize& gradient, uint64_t path, bool norm, const SizeOf& size) const;

 private:
  struct Term {
    size_t sample = 0;
    ErrorLevel level;
  };
  struct Module {
    std::vector<Term> inputs, grad_outputs;
  };
  std::unordered_map<uint64_t, Module> modules_;  // by path
};

}  // namespace tdump::compare
