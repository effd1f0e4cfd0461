// A part of a captured tensor under a name of its own: q out of a fused qkv projection. The rules
// by which projections are fused, and the part as a source.
//
//   equal       n pieces one after the other: gate and up of a gated MLP
//   qkv         q, k, v one after the other: vLLM, SGLang, GPT-2's c_attn
//   qkv_groups  for each group of queries that share a key: its queries, its k, its v:
//               Megatron-Core's linear_qkv, Transformer Engine's layernorm_qkv
//   copy        every name stands for the whole tensor: the input of a fused projection
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "compare/tensor_source.h"
#include "core/status.h"

namespace tdump::compare {

enum class Fusion : uint8_t { kNone, kCopy, kEqual, kQkv, kQkvGroups };

// Which units of a tensor belong to a part: those of one box.
struct TensorPart {
  bool whole = true;  // of the tensor; the rest is then empty
  Shape shape;
  Shape box;  // of `shape`'s units, dimensions taken apart
  uint64_t offset = 0;
  std::vector<uint64_t> stride;
};

// Lengths of one rank's share along the fused dimension. q + 2 * kv is its length.
struct QkvLengths {
  uint64_t q = 0, kv = 0;
  uint64_t head = 0;  // length of one head; only kQkvGroups needs it
};

// The parts of a tensor, in order of the names; `count` of them (kQkv*: 3). Error
// (kInvalidArgument): the dimension cannot be divided like this; says the lengths.
Result<std::vector<TensorPart>> PartsOf(const Shape& shape, size_t axis, Fusion fusion,
                                        size_t count, const QkvLengths& lengths);

// The part as it is read. Precondition: `part` was made from the shape of `tensor`.
Result<Source> OpenPart(Source tensor, const TensorPart& part);

}  // namespace tdump::compare
