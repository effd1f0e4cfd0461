// Hands one tensor to the recorder and the sink: ask, reserve, copy, commit.
#pragma once

#include <string_view>

#include "collectors/torch/export.h"
#include "core/recorder.h"

namespace at {
class TensorBase;
}

namespace tdump::collectors {

// Whether the plan can want anything in this role of the call; if not,
// a caller may skip gathering it.
inline bool Wants(Recorder& recorder, const Recorder::CallScope& scope, Role role) {
  return recorder.plan().wants(scope.rule, role, scope.call.phase);
}

struct Seen {
  Role role = Role::kOutput;
  std::string_view arg;
  bool late = false;
  std::string_view subclass;  // Python class, when not torch.Tensor or Parameter
};

// Records `tensor` as it is now, and nothing of it afterwards. Undefined tensors are noted in the
// call's text. noexcept: what goes wrong becomes a record without data.
TDUMP_TORCH_EXPORT void Capture(Recorder& recorder, Recorder::CallScope* scope, const Seen& seen,
                                const at::TensorBase& tensor) noexcept;

// The Python class of jagged tensors; who knows it captures their components too.
inline constexpr std::string_view kJaggedClass = "NestedTensor";

inline constexpr size_t kMaxText = 1024;  // bytes of a call's text
inline bool HasRoomForText(const Recorder::CallScope& scope) {
  return scope.text.size() < kMaxText;
}
// Adds "name=value" to the call's text, which holds scalar and string arguments, at most 1 KiB.
TDUMP_TORCH_EXPORT void AddText(Recorder::CallScope* scope, std::string_view name,
                                std::string_view value) noexcept;

}  // namespace tdump::collectors
