// What optimizers keep of parameters: exp_avg, momentum_buffer, step, ...
//
// Read right after a step of the optimizer, while its pass is open. A record belongs to the module
// that owns the parameter: role `state`, arg "weight.exp_avg". Its `call` is the number of the step
// of this optimizer in the pass, 0 for the first. Numbers are recorded as tensors without
// dimensions: int64 and float64. Of state that is a DTensor the local part is recorded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "collectors/torch/export.h"
#include "core/runtime.h"

namespace at {
class TensorBase;
}

namespace tdump::collectors {

// Records what one step left, parameter by parameter. Belongs to one thread; noexcept where it does
// not say otherwise.
class TDUMP_TORCH_EXPORT OptimizerState {
 public:
  // `optimizer`: identity only.
  OptimizerState(Runtime* runtime, const void* optimizer);

  // What follows is of the parameter `name` of the module `op`. False: no rule wants it. May throw
  // std::bad_alloc.
  bool Begin(OperatorId op, std::string_view name);
  void Tensor(std::string_view name, const at::TensorBase& tensor) noexcept;
  void Integer(std::string_view name, int64_t number) noexcept;
  void Real(std::string_view name, double number) noexcept;

 private:
  void Number(std::string_view name, std::string_view dtype, const void* bytes) noexcept;
  std::string_view ArgOf(std::string_view name);

  Runtime* runtime_;
  uint64_t step_;  // of this optimizer in the pass
  Recorder::CallScope scope_;
  std::string arg_;
  size_t stem_ = 0;  // of arg_: "weight."
};

}  // namespace tdump::collectors

extern "C" {
// After a step of a torch::optim::Optimizer, for the shim; `optimizer` is its address.
TDUMP_TORCH_EXPORT void tdump_torch_optimizer_stepped(const void* optimizer);
}
