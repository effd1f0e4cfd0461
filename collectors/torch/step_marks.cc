#include "collectors/torch/step_marks.h"

#include <ATen/record_function.h>

#include "collectors/torch/module_calls.h"
#include "collectors/torch/plugin.h"
#include "collectors/torch/torch_state.h"

namespace tdump::collectors {
namespace {

void Tell(BoundaryKind kind, const char* name) {
  Runtime* runtime = CurrentRuntime();
  if (runtime == nullptr) return;
  at::DisableRecordFunctionGuard guard;
  Boundary boundary;
  boundary.kind = kind;
  boundary.name = name;
  boundary.grad_enabled = GradEnabled();
  TellClock(runtime, boundary);
}

// Every node of the graph comes here; the clock takes the first of a step.
std::unique_ptr<at::ObserverContext> OnBackwardNode(const at::RecordFunction&) {
  Tell(BoundaryKind::kBackwardBegin, "");
  return nullptr;
}

std::unique_ptr<at::ObserverContext> OnOperator(const at::RecordFunction& function) {
  Tell(BoundaryKind::kOp, function.name());
  return nullptr;
}

}  // namespace

void StartStepMarks(Runtime* runtime) {
  if (runtime->tell_backward) {
    at::addGlobalCallback(
        at::RecordFunctionCallback(OnBackwardNode).scopes({at::RecordScope::BACKWARD_FUNCTION}));
  }
  if (runtime->tell_operators) {
    at::addGlobalCallback(
        at::RecordFunctionCallback(OnOperator).scopes({at::RecordScope::FUNCTION}));
  }
}

}  // namespace tdump::collectors

extern "C" void tdump_torch_backward_left() noexcept {
  using namespace tdump::collectors;
  tdump::Boundary boundary;
  boundary.kind = tdump::BoundaryKind::kBackwardLeft;
  if (tdump::Runtime* runtime = CurrentRuntime()) TellClock(runtime, boundary);
}
