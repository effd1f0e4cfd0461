// A tap: one tensor that the program names, recorded where it stands.
#pragma once

#include <span>

#include "collectors/torch/export.h"
#include "core/runtime.h"

namespace at {
class TensorBase;
}

namespace tdump::collectors {

// Records `tensor` as the output of the operator `name` below the innermost open module. noexcept:
// what goes wrong becomes a note or a record without data.
TDUMP_TORCH_EXPORT void Tap(Runtime* runtime, const at::TensorBase& tensor, const char* name,
                            std::span<const char* const> tags) noexcept;

}  // namespace tdump::collectors
