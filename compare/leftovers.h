// Pairing of what names alone do not pair: one side's tensors are put beside the other's by what
// they are and by their order, like the lines of two texts. And for what stays alone, whose name
// comes nearest.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compare/tensor_source.h"
#include "core/key.h"

namespace tdump::compare {

// A tensor that found no partner by its key. `shape`: of the whole tensor, as it is compared.
struct Leftover {
  Key key;
  std::string cls;  // of the module
  Shape shape;
  uint64_t order = 0;  // of its being seen
};

enum class PairedBy : uint8_t {
  kKey,
  kArgument,  // output#0 against a bare output, input#0 against input#kwargs.hidden_states
  kCall,      // the n-th call of a name, however calls and micro-batches are counted
  kSequence,  // class, shape and order
};
// "by argument", "by order of calls", "by sequence".
std::string_view ToString(PairedBy by);
// "paired by argument: A's fc@output#0 with B's fc@output#".
std::string PairedText(PairedBy by, const Key& a, const Key& b);

struct LeftoverPair {
  size_t a = 0, b = 0;  // indices into the leftovers
  PairedBy by = PairedBy::kSequence;
};

struct LeftoverOptions {
  bool sequence = true;  // also by class, shape and order where names share nothing
  // Parameters, buffers and gradients of parameters by their argument too: it is their name.
  bool renamed_weights = true;
};
// Of runs whose names nobody mapped: only what has one name in both.
inline constexpr LeftoverOptions kSameNames = {.sequence = false, .renamed_weights = false};

// Every leftover is in at most one pair; pairs in order of A. Cheap rules first: argument, calls,
// then the longest alignment in which order, role, operator, shape and the kind of class agree.
// Work is bounded: beyond kMaxAligned tensors on a side the alignment is made piece by piece.
std::vector<LeftoverPair> PairLeftovers(std::span<const Leftover> a, std::span<const Leftover> b,
                                        const LeftoverOptions& options = {});
inline constexpr size_t kMaxAligned = 2048;

// Indices into `others` of at most `count` names that come nearest to `name`: edits of path
// components, then role, argument and shape. None that is far off.
std::vector<size_t> NearestNames(const Leftover& name, std::span<const Leftover> others,
                                 size_t count);

}  // namespace tdump::compare
