// A tap: one tensor that the program names, recorded where it stands.
#pragma once

#include <span>
#include <string_view>

#include "collectors/torch/export.h"
#include "core/runtime.h"

namespace at {
class TensorBase;
}

namespace tdump::collectors {

// The tap as an operator: below the module `owner`, or below none (kNoOperator). Allocates only for
// a name that this thread has not used there before. May throw std::bad_alloc.
TDUMP_TORCH_EXPORT OperatorId TapOperator(Runtime* runtime, OperatorId owner,
                                          std::string_view name);

// A call of a tap on the calling thread's stack: taps may nest, as reading a value may run code of
// the job. What it holds keeps its room for the next tap. May throw std::bad_alloc.
class TDUMP_TORCH_EXPORT TapCall {
 public:
  TapCall();
  ~TapCall();
  TapCall(const TapCall&) = delete;
  Recorder::CallScope* scope() { return scope_; }

 private:
  Recorder::CallScope* scope_;
};

// Records `tensor` as the output of the operator `name` below the innermost open module. noexcept:
// what goes wrong becomes a note or a record without data.
TDUMP_TORCH_EXPORT void Tap(Runtime* runtime, const at::TensorBase& tensor, const char* name,
                            std::span<const char* const> tags) noexcept;

}  // namespace tdump::collectors
