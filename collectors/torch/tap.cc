#include "collectors/torch/tap.h"

#include <ATen/core/TensorBase.h>

#include <memory>
#include <string>
#include <vector>

#include "collectors/torch/capture.h"
#include "collectors/torch/gradients.h"
#include "collectors/torch/known_names.h"
#include "collectors/torch/module_calls.h"
#include "collectors/torch/torch_state.h"

namespace tdump::collectors {
namespace {

struct TapThread {
  KnownNames known;
  std::vector<std::unique_ptr<Recorder::CallScope>> scopes;
  size_t depth = 0;
};

TapThread& OfThread() {
  static thread_local TapThread thread;
  return thread;
}

}  // namespace

OperatorId TapOperator(Runtime* runtime, OperatorId owner, std::string_view name) {
  if (name.empty()) name = "tap";
  KnownNames& known = OfThread().known;
  OperatorId id = known.Find(runtime->operators, owner, name);
  if (id != kNoOperator) return id;
  id = InternBelow(runtime->operators, OperatorKind::kTap, owner, name);
  if (id != kNoOperator) known.Add(owner, name, id);
  return id;
}

void NoteTapWithoutGradient(Runtime* runtime, std::string_view name, bool is_wanted) {
  std::string text = "the gradient of the tap '";
  text.append(name).append(is_wanted ? "' is not recorded: the tensor needs none"
                                     : "' is not recorded: no rule asks for its grad_output");
  runtime->sink->note(text);
}

TapCall::TapCall() {
  TapThread& thread = OfThread();
  if (thread.depth == thread.scopes.size())
    thread.scopes.push_back(std::make_unique<Recorder::CallScope>());
  scope_ = thread.scopes[thread.depth++].get();
  scope_->call.begin = 0;
}

TapCall::~TapCall() { --OfThread().depth; }

void Tap(Runtime* runtime, const at::TensorBase& tensor, const char* name,
         std::span<const char* const> tags, TapHalf half) noexcept try {
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
  TapCall call;
  Recorder::CallScope* scope = call.scope();
  const OperatorId owner = inside != nullptr ? inside->op : kNoOperator;
  if (name == nullptr) name = "";
  if (!runtime->recorder->Begin(TapOperator(runtime, owner, name), nullptr, phase, recompute,
                                scope))
    return;
  const bool gradient =
      HasGradient(half) && WantsGradient(*runtime->recorder, *scope, Role::kGradOutput);
  if (HasValue(half)) Capture(*runtime->recorder, scope, {Role::kOutput, ""}, tensor);
  if (gradient) WatchGradient(*scope, Role::kGradOutput, "", /*late=*/false, tensor);
  if (!HasValue(half) && !(gradient && (tensor.requires_grad() || !GradEnabled())))
    NoteTapWithoutGradient(runtime, name, gradient);
  for (const char* tag : tags) scope->text.AddText("tag", tag);
  runtime->recorder->End(scope, /*threw=*/false);
} catch (...) {  // out of memory
}

}  // namespace tdump::collectors
