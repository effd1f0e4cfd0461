// Gradients of what modules take and give, and of parameters.
//
// A gradient is seen by a hook on the node of the autograd graph that made the tensor (on the
// tensor itself, where it is a leaf). The hook returns what it was given, keeps numbers only
// (neither a tensor nor a module) and ends with the graph. What it records has the key of the
// forward call, in the backward phase:
//   grad_output  the whole gradient of a tensor that the call returned, all its uses summed
//   grad_input   the same of a tensor that the call was given
//   param_grad   `.grad` of a parameter, each time after autograd has added to it; before what the
//                job itself registered for that moment
// The n-th backward through the same call counts its calls on: call + n * (calls in the forward).
//
// Threads: any. Compiled autograd leaves these hooks out; its gradients are not recorded.
#pragma once

#include <string>
#include <string_view>

#include "collectors/torch/export.h"
#include "core/recorder.h"

namespace at {
class TensorBase;
}

namespace tdump::collectors {

struct Seen;

// Whether any rule of the call wants its gradients in `role`.
inline bool WantsGradient(Recorder& recorder, const Recorder::CallScope& scope, Role role) {
  return recorder.plan().wants(scope.rule, role, Phase::kBackward);
}

// Records the gradient of `tensor`, as it is now, when there will be one: as `role` and `arg` of
// the call. Nothing when the tensor needs none. noexcept: what goes wrong becomes a note.
TDUMP_TORCH_EXPORT void WatchGradient(const Recorder::CallScope& scope, Role role,
                                      std::string_view arg, bool late,
                                      const at::TensorBase& tensor) noexcept;

// The same where no hook can stand, in compiled code (collectors/torch/traced_calls.h): a gradient
// of the call `forward` may come, and has come behind `before` others of the same tensor.
TDUMP_TORCH_EXPORT void ExpectGradient(const Call& forward) noexcept;
TDUMP_TORCH_EXPORT void RecordGradient(const Call& forward, const Seen& seen, uint64_t before,
                                       const at::TensorBase& gradient) noexcept;

// From now on records the gradient of a parameter whenever it was accumulated, in passes that want
// it. Again: nothing is done, unless the job has put a hook of its own in place of this one; then
// both run.
TDUMP_TORCH_EXPORT void WatchParameterGradient(OperatorId op, std::string_view name,
                                               const at::TensorBase& parameter) noexcept;

// What the two ways of hearing of a parameter's gradient have in common: one parameter of an
// operator, and how often its gradient came in a micro-batch of a pass. One thread at a time.
class TDUMP_TORCH_EXPORT ParameterGradient {
 public:
  ParameterGradient(OperatorId op, std::string_view name) : op_(op), name_(name) {}

  bool IsOf(OperatorId op, std::string_view name) const { return op_ == op && name_ == name; }
  // It has just been added to.
  void Record(const at::TensorBase& gradient) noexcept;

 private:
  OperatorId op_;
  std::string name_;
  uint64_t pass_ = ~uint64_t{0};
  uint32_t micro_ = 0;
  uint64_t count_ = 0;         // accumulations in this micro-batch of this pass
  Recorder::CallScope scope_;  // here because it keeps its memory
};

}  // namespace tdump::collectors
