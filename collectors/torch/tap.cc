#include "collectors/torch/tap.h"

#include <ATen/core/TensorBase.h>

#include <string>

#include "collectors/torch/capture.h"
#include "collectors/torch/gradients.h"
#include "collectors/torch/module_calls.h"
#include "collectors/torch/torch_state.h"

namespace tdump::collectors {
namespace {

OperatorId TapOperator(Runtime* runtime, const ModuleFrame* inside, const char* name) {
  OperatorInfo info;
  info.kind = OperatorKind::kTap;
  info.op = name == nullptr || *name == '\0' ? "tap" : name;
  info.leaf = true;
  if (inside != nullptr && inside->op != kNoOperator) {
    const OperatorInfo& owner = runtime->operators->Get(inside->op);
    info.root = owner.root;
    info.path = owner.path;
    info.cls = owner.cls;
  }
  return runtime->operators->Intern(info);
}

}  // namespace

void Tap(Runtime* runtime, const at::TensorBase& tensor, const char* name,
         std::span<const char* const> tags) noexcept try {
  Activate(runtime);
  if (const char* region = TracingRegion()) {
    std::string text = region;
    text.append(": the tap '").append(name != nullptr ? name : "");
    text += "' is traced here, not run; not captured (not in this version)";
    return runtime->sink->note(text);
  }
  if (!runtime->gate->armed()) return;
  const ModuleFrame* inside = ModuleCalls::OfThread().top();
  const bool recompute = inside != nullptr && inside->recompute;
  const Phase phase = inside == nullptr && InBackward() ? Phase::kBackward : Phase::kForward;
  Recorder::CallScope scope;
  if (!runtime->recorder->Begin(TapOperator(runtime, inside, name), nullptr, phase, recompute,
                                &scope))
    return;
  Capture(*runtime->recorder, &scope, {Role::kOutput, ""}, tensor);
  if (WantsGradient(*runtime->recorder, scope, Role::kGradOutput))
    WatchGradient(scope, Role::kGradOutput, "", /*late=*/false, tensor);
  for (const char* tag : tags) AddText(&scope, "tag", tag);
  runtime->recorder->End(&scope, /*threw=*/false);
} catch (...) {  // out of memory
}

}  // namespace tdump::collectors
