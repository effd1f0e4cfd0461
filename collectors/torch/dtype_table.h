// LibTorch's scalar types as (name, bits, elements per unit). Covers every scalar
// type of the LibTorch it is built for; one that a later LibTorch adds gets its
// name and item size from LibTorch itself.
#pragma once

#include <c10/core/ScalarType.h>

#include "collectors/torch/export.h"
#include "collectors/torch/strided_copy.h"
#include "core/types.h"

namespace tdump::collectors {

struct ScalarInfo {
  DType dtype;
  NumberKind kind = NumberKind::kInteger;
  bool quantised = false;
};

// Built on first use, then a plain array access. Never throws for a
// scalar type that a tensor can have.
TDUMP_TORCH_EXPORT const ScalarInfo& InfoOf(c10::ScalarType type);

}  // namespace tdump::collectors
