#include "collectors/torch/cxx_api.h"

#include <ATen/core/TensorBase.h>

#include <memory>
#include <span>
#include <string>

#include "collectors/torch/capture.h"
#include "collectors/torch/cxx_modules.h"
#include "collectors/torch/gradients.h"
#include "collectors/torch/known_names.h"
#include "collectors/torch/module_calls.h"
#include "collectors/torch/plugin.h"
#include "collectors/torch/tap.h"
#include "collectors/torch/torch_state.h"
#include "core/index_text.h"

namespace tdump::collectors {
namespace {

using torch::nn::Module;

Runtime* Running() {
  Runtime* runtime = CurrentRuntime();
  return runtime == nullptr || runtime->gate->off() ? nullptr : runtime;
}

void* TokenOf(const ModuleFrame* frame) { return reinterpret_cast<void*>(frame->serial); }
ModuleFrame* FrameOf(void* token) {
  return ModuleCalls::OfThread().WithSerial(reinterpret_cast<uint64_t>(token));
}

OperatorId InternPart(Runtime* runtime, OperatorId owner, const char* name) {
  OperatorInfo info;
  info.path = name;
  info.leaf = true;
  if (owner != kNoOperator) {
    const OperatorInfo& above = runtime->operators->Get(owner);
    info.root = above.root;
    if (above.path != ".") info.path = above.path + "." + name;
  }
  return runtime->operators->Intern(info);
}

// A part of the program that is no watched module: `name` below what is open.
OperatorId NamedPart(Runtime* runtime, const char* name) {
  static thread_local KnownNames known;
  const ModuleFrame* inside = ModuleCalls::OfThread().top();
  const OperatorId owner = inside != nullptr ? inside->op : kNoOperator;
  OperatorId id = known.Find(runtime->operators, owner, name);
  if (id != kNoOperator) return id;
  id = InternPart(runtime, owner, name);
  if (id != kNoOperator) known.Add(owner, name, id);
  return id;
}

// Pushes the call and tells the clock; begins its record where one is wanted.
ModuleFrame* Enter(Runtime* runtime, const ModuleIdentity& identity, CxxRoot* root) {
  const char* tracing = TracingRegion();
  ModuleFrame* frame = ModuleCalls::OfThread().Push(runtime, identity, 0, tracing != nullptr);
  if (frame == nullptr) return nullptr;
  if (tracing != nullptr) {
    Activate(runtime);
    runtime->sink->note(std::string(tracing) +
                        ": modules are traced here, not run; not captured (not in this version)");
    return frame;
  }
  if (frame->announced && root != nullptr) CxxModules::Get().OnOutermostCall(runtime, root);
  runtime->recorder->Begin(identity.op, nullptr, Phase::kForward, frame->recompute, &frame->scope);
  return frame;
}

ModuleFrame* Begin(Runtime* runtime, const Module* module, const char* name, const void* here) {
  ModuleCalls::OfThread().DropUnwound(runtime, here);
  if (const auto known = module != nullptr ? CxxModules::Get().Find(module) : std::nullopt) {
    const ModuleIdentity identity{.module = module,
                                  .op = known->op,
                                  .is_root = known->is_root,
                                  .told_as = known->told_as,
                                  .cls = runtime->operators->Get(known->op).cls,
                                  .root_number = known->root->number};
    return Enter(runtime, identity, known->root);
  }
  if (name == nullptr) return nullptr;
  const OperatorId part = NamedPart(runtime, name);
  if (part == kNoOperator) return nullptr;
  return Enter(runtime, {.op = part, .told_as = runtime->operators->Get(part).path}, nullptr);
}

void Record(void* token, const void* tensor, const char* arg, Role role) noexcept {
  Runtime* runtime = Running();
  ModuleFrame* frame = runtime != nullptr ? FrameOf(token) : nullptr;
  if (frame == nullptr || frame->scope.call.begin == 0) return;
  const auto& seen = *static_cast<const at::TensorBase*>(tensor);
  Capture(*runtime->recorder, &frame->scope, {role, arg}, seen);
  const Role gradient = role == Role::kInput ? Role::kGradInput : Role::kGradOutput;
  if (WantsGradient(*runtime->recorder, frame->scope, gradient))
    WatchGradient(frame->scope, gradient, arg, /*late=*/false, seen);
}

void End(void* token, bool threw) noexcept {
  Runtime* runtime = CurrentRuntime();
  ModuleFrame* frame = runtime != nullptr ? FrameOf(token) : nullptr;
  if (frame == nullptr) return;
  ModuleCalls& calls = ModuleCalls::OfThread();
  calls.UnwindTo(runtime, frame);
  calls.Pop(runtime, threw);
}

void Tap(const void* tensor, const char* name, std::span<const char* const> tags,
         TapHalf half) noexcept {
  if (Runtime* runtime = Running(); runtime != nullptr && runtime->collect_taps)
    Tap(runtime, *static_cast<const at::TensorBase*>(tensor), name, tags, half);
}

void ApiTap(const void* tensor, const char* name, const char* const* tags,
            size_t tag_count) noexcept {
  Tap(tensor, name, {tags, tag_count}, TapHalf::kBoth);
}

void ApiTapGrad(const void* tensor, const char* name, const char* const* tags,
                size_t tag_count) noexcept {
  Tap(tensor, name, {tags, tag_count}, TapHalf::kGradient);
}

void ApiWatch(const void* module, const char* root) noexcept try {
  if (Runtime* runtime = Running(); runtime != nullptr && runtime->collect_modules)
    CxxModules::Get().Watch(runtime, *static_cast<const std::shared_ptr<Module>*>(module), root);
} catch (...) {  // out of memory, or a module that throws when asked for its parts
  if (Runtime* runtime = Running()) runtime->sink->note("a C++ model could not be watched");
}

// `here`: frame address of the function that was called from outside.
ModuleFrame* BeginOrNull(const void* module, const char* name, const void* here) noexcept try {
  Runtime* runtime = Running();
  if (runtime == nullptr || !runtime->collect_modules) return nullptr;
  return Begin(runtime, static_cast<const Module*>(module), name, here);
} catch (...) {  // out of memory
  return nullptr;
}

void* ApiScopeBegin(const void* module, const char* name) noexcept {
  const ModuleFrame* frame = BeginOrNull(module, name, __builtin_frame_address(0));
  return frame != nullptr ? TokenOf(frame) : nullptr;
}

void ApiScopeInput(void* token, const void* tensor, const char* arg) noexcept {
  Record(token, tensor, arg, Role::kInput);
}

void ApiScopeOutput(void* token, const void* tensor, const char* arg) noexcept {
  Record(token, tensor, arg, Role::kOutput);
}

void ApiScopeEnd(void* token, int threw) noexcept { End(token, threw != 0); }

void ApiStep(int64_t number) noexcept {
  Runtime* runtime = Running();
  if (runtime == nullptr) return;
  Boundary boundary;
  boundary.kind = BoundaryKind::kExplicit;
  boundary.number = number;
  boundary.grad_enabled = GradEnabled();
  TellClock(runtime, boundary);
}

constexpr TdumpApi kApi = {TDUMP_API_VERSION, sizeof(TdumpApi), ApiTap,         ApiWatch,
                           ApiScopeBegin,     ApiScopeInput,    ApiScopeOutput, ApiScopeEnd,
                           ApiStep,           ApiTapGrad};

}  // namespace

const TdumpApi* CxxApi() noexcept { return &kApi; }

}  // namespace tdump::collectors

extern "C" {

void* tdump_torch_forward_begin(const void* module, const void* const* tensors, size_t count) {
  using namespace tdump::collectors;
  const void* here = __builtin_frame_address(0);
  ModuleFrame* frame = BeginOrNull(module, nullptr, here);
  if (frame == nullptr) return nullptr;
  // The end is skipped by an exception; tdump_torch_forward_unwound may be told, or not.
  frame->stack = here;
  void* token = TokenOf(frame);
  char position[tdump::IndexText::kMaxBytes + 1];
  for (size_t i = 0; i < count; ++i) {
    *tdump::IndexText::Copy(i, position) = '\0';
    Record(token, tensors[i], position, tdump::Role::kInput);
  }
  return token;
}

void tdump_torch_forward_end(void* token, const void* result) {
  using namespace tdump::collectors;
  Record(token, result, "", tdump::Role::kOutput);
  End(token, /*threw=*/false);
}

void tdump_torch_forward_unwound(const void* frame) {
  using namespace tdump::collectors;
  if (tdump::Runtime* runtime = CurrentRuntime())
    ModuleCalls::OfThread().DropUnwound(runtime, static_cast<const char*>(frame) - 1);
}

}  // extern "C"
