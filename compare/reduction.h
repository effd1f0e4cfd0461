// Reduction: what kind of operator a call is, as far as rounding is concerned, and how many terms
// it adds up for one element of a tensor. Read off its name or class and the shapes of its
// arguments; of an operator that nobody has listed both are said to be unknown.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"

namespace tdump::compare {

enum class OperatorClass : uint8_t {
  kUnknown,
  kProduct,        // matrix products, convolutions, attention: what a low precision computes
  kNormalisation,  // layer, RMS, group, batch norm
  kSoftmax,
  kReduction,    // sums, means, norms, losses, pooling
  kElementwise,  // one element in, one out: activations, additions, dropout, casts
  kLookup,       // embedding, gather: numbers are copied
};
std::string_view ToString(OperatorClass kind);

struct Reduction {
  OperatorClass kind = OperatorClass::kUnknown;
  uint64_t length = 1;  // K, at least 1
  bool exact = false;   // read off the shapes; else the longest last dimension stands in
};

// What is known of a call. Views: they live as long as the call of ReductionOf.
struct OperatorFacts {
  std::string_view op;   // "aten::addmm"; "" for a module
  std::string_view cls;  // of a module
  std::span<const ArgumentMeta> arguments;
  std::span<const int64_t> weight;  // sizes of the module's parameter `weight`, where it is known
  // Of the gradient of a parameter: its sizes, and the calls of the module that add to it, of which
  // `arguments` are one's.
  std::span<const int64_t> parameter = {};
  uint64_t calls = 1;
};

OperatorClass ClassOf(std::string_view op, std::string_view cls);

// Of the tensor with this role among the call's. K of a product is the length of the dimension that
// is summed over (of a convolution, channels of a group times kernel); of a norm the normalised
// elements; of a sum or mean the elements in for each one out; of a parameter's gradient the rows
// (of a convolution every place of every channel), of all calls.
Reduction ReductionOf(const OperatorFacts& facts, Role role);

}  // namespace tdump::compare
