#include "collectors/torch/torch_state.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/jit/frontend/tracer.h>

namespace tdump::collectors {

bool GradEnabled() noexcept { return at::GradMode::is_enabled(); }

bool InBackward() noexcept { return torch::autograd::get_current_graph_task_id() != -1; }

const char* TracingRegion() noexcept {
  using c10::impl::TorchDispatchModeKey;
  using c10::impl::TorchDispatchModeTLS;
  try {
    if (TorchDispatchModeTLS::any_modes_set()) {
      if (TorchDispatchModeTLS::get_mode(TorchDispatchModeKey::PROXY))
        return "torch.export or make_fx";
      if (TorchDispatchModeTLS::get_mode(TorchDispatchModeKey::FAKE)) return "FakeTensorMode";
      if (TorchDispatchModeTLS::get_mode(TorchDispatchModeKey::FUNCTIONAL))
        return "functionalisation";
    }
    return torch::jit::tracer::isTracing() ? "torch.jit.trace" : nullptr;
  } catch (...) {
    return nullptr;
  }
}

}  // namespace tdump::collectors
