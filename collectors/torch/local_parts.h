// Tensors of which each rank holds a part (DTensor): what is recorded of them is the part that lies
// in this process, with where it lies in the whole. Nothing is gathered.
//
// Such a tensor is an object of Python, so only the collector of Python can look into it: it hands
// its reader over here.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "collectors/torch/export.h"

namespace at {
class TensorBase;
}

namespace tdump::collectors {

// The Python class of such tensors.
inline constexpr std::string_view kDTensorClass = "DTensor";

// Where a tensor that one rank holds lies in the one of all of them, as DTensor says it.
struct ShardOf {
  std::string_view placements;  // "(Shard(dim=0),)"
  std::string_view mesh;
  std::span<const int64_t> global_shape;
  bool requires_grad = false;    // the whole
  std::string_view local_class;  // Python class of the part, when not torch.Tensor
};

// Called at most once, before ReadLocalPart() returns, which keeps what it is given.
using UseLocalPart = void (*)(void* context, const at::TensorBase& local, const ShardOf& shard);
// Of any thread. False: `tensor` is no DTensor, or cannot be looked into.
using LocalPartReader = bool (*)(const at::TensorBase& tensor, UseLocalPart use, void* context);

TDUMP_TORCH_EXPORT void SetLocalPartReader(LocalPartReader reader);
// False, too, where there is no reader.
bool ReadLocalPart(const at::TensorBase& tensor, UseLocalPart use, void* context);

}  // namespace tdump::collectors
