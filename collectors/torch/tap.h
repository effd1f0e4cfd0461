// A tap: one tensor that the program names, recorded where it stands.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "collectors/torch/export.h"
#include "core/runtime.h"

namespace at {
class TensorBase;
}

namespace tdump::collectors {

// Which of a tap is recorded, as far as the rules want it: the value now, its gradient when it
// arrives.
enum class TapHalf : uint8_t { kBoth = 3, kValue = 1, kGradient = 2 };
inline bool HasValue(TapHalf half) { return half != TapHalf::kGradient; }
inline bool HasGradient(TapHalf half) { return half != TapHalf::kValue; }

// Of a tap that is for a gradient alone: says why there will be none.
TDUMP_TORCH_EXPORT void NoteTapWithoutGradient(Runtime* runtime, std::string_view name,
                                               bool is_wanted);

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

// Records `tensor` as the output, and its gradient as grad_output, of the operator `name` below the
// innermost open module. noexcept: what goes wrong becomes a note or a record without data.
TDUMP_TORCH_EXPORT void Tap(Runtime* runtime, const at::TensorBase& tensor, const char* name,
                            std::span<const char* const> tags,
                            TapHalf half = TapHalf::kBoth) noexcept;

}  // namespace tdump::collectors
