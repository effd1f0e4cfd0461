#include "collectors/torch/aten_collector.h"

#include <ATen/core/TensorBase.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <exception>
#include <string_view>

#include "collectors/torch/aten_operators.h"
#include "collectors/torch/capture.h"
#include "collectors/torch/cxx_modules.h"
#include "collectors/torch/forward_origins.h"
#include "collectors/torch/module_calls.h"
#include "collectors/torch/plugin.h"
#include "collectors/torch/torch_state.h"

namespace tdump::collectors {
namespace {

using at::RecordFunction;
using c10::DispatchKey;
using c10::IValue;
using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, at::UndefinedTensorImpl>;

struct ThreadState;

// What a range that is followed changes for its thread, undone at its end.
struct Range : at::ObserverContext {
  explicit Range(ThreadState* state) : thread(state) {}
  ~Range() override = default;
  virtual void End(const RecordFunction& range) = 0;
  ThreadState* thread;
};

struct OpRange;

struct ThreadState {
  AtenOperators operators;
  std::unordered_map<uint64_t, std::unordered_map<const AtenOperator*, OperatorId>> interned;
  OpRange* open = nullptr;  // nothing below an open operator is looked at
  int wrapped = 0;          // inside an operator on tensors that only stand for others
  int compiled = 0;         // inside code that torch.compile or AOTInductor made
  bool in_node = false;     // inside a node of the autograd graph whose forward is known
  ForwardOrigin origin;
};

ThreadState& OfThread() {
  static thread_local ThreadState state;
  return state;
}

ForwardOrigins& Origins() {
  static auto* origins = new ForwardOrigins;  // never destroyed: threads may come late
  return *origins;
}

// ---- ranges that are not recorded ----

struct WrappedRange final : Range {
  explicit WrappedRange(ThreadState* state) : Range(state) { ++thread->wrapped; }
  void End(const RecordFunction&) override { --thread->wrapped; }
};

struct CompiledRange final : Range {
  explicit CompiledRange(ThreadState* state) : Range(state) { ++thread->compiled; }
  void End(const RecordFunction&) override { --thread->compiled; }
};

struct NodeRange final : Range {
  NodeRange(ThreadState* state, const ForwardOrigin& of)
      : Range(state), outer_in_node(state->in_node), outer(state->origin) {
    state->in_node = true;
    state->origin = of;
  }
  void End(const RecordFunction&) override {
    thread->in_node = outer_in_node;
    thread->origin = outer;
  }
  bool outer_in_node;
  ForwardOrigin outer;
};

bool IsCompiledRegion(std::string_view name) {
  return name.starts_with("Torch-Compiled Region") || name.starts_with("CompiledFunction") ||
         name.starts_with("AOTIModelContainerRunner");
}

// ---- values ----

bool IsWrapper(const at::TensorBase& tensor) {
  if (!tensor.defined()) return false;
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  const c10::DispatchKeySet keys = impl.key_set();
  return impl.is_python_dispatch() || keys.has(DispatchKey::FuncTorchBatched) ||
         keys.has(DispatchKey::Batched) || keys.has(DispatchKey::FuncTorchGradWrapper) ||
         keys.has(DispatchKey::Functionalize);
}

// Visits the tensors in a value with their place below `arg`.
template <class Visitor>
void ForEachTensor(const IValue& value, const std::string& arg, Visitor visit) {
  if (value.isTensor()) return visit(value.toTensor(), arg);
  if (!value.isList()) return;
  const c10::ArrayRef<IValue> items = value.toListRef();
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].isTensor())
      visit(items[i].toTensor(), (arg.empty() ? "" : arg + ".") + std::to_string(i));
  }
}

bool AnyWrapper(c10::ArrayRef<IValue> values) {
  bool found = false;
  for (const IValue& value : values)
    ForEachTensor(value, "", [&](const at::TensorBase& tensor, const std::string&) {
      found = found || IsWrapper(tensor);
    });
  return found;
}

// A shape without data, as the inner operators of a fake tensor have.
bool AllMeta(c10::ArrayRef<IValue> values) {
  bool other = false;
  for (const IValue& value : values)
    ForEachTensor(value, "", [&](const at::TensorBase& tensor, const std::string&) {
      other = other || (tensor.defined() && !tensor.is_meta());
    });
  return !other;
}

// Python has handled an operator and works on what its tensors stand for (a fake tensor is made).
bool BelowPython() {
  return c10::impl::tls_local_dispatch_key_set().excluded_.has(DispatchKey::Python);
}

// ---- operators ----

struct OpRange final : Range {
  OpRange(ThreadState* state, const AtenOperator* of)
      : Range(state), op(of), exceptions(std::uncaught_exceptions()) {
    state->open = this;
  }
  void End(const RecordFunction& range) override;

  const AtenOperator* op;
  int exceptions;
  Recorder::CallScope scope;
  // Written arguments, for their state afterwards. Weak: LibTorch must not see a further owner.
  std::vector<std::pair<std::string, WeakTensor>> written;
};

void RecordInputs(Recorder& recorder, OpRange* range, c10::ArrayRef<IValue> inputs) {
  if (!range->op->overload.empty()) AddText(&range->scope, "overload", range->op->overload);
  const std::vector<AtenOperator::Argument>& arguments = range->op->arguments;
  for (size_t i = 0; i < inputs.size() && i < arguments.size(); ++i) {
    const AtenOperator::Argument& argument = arguments[i];
    ForEachTensor(inputs[i], argument.arg, [&](const at::Tensor& tensor, const std::string& arg) {
      const Role role = argument.written ? Role::kBefore : Role::kInput;
      Capture(recorder, &range->scope, {role, arg}, tensor);
      if (argument.written && tensor.defined())
        range->written.emplace_back(arg, WeakTensor(tensor.getIntrusivePtr()));
    });
    const std::string text = TextOf(inputs[i]);
    if (!text.empty() && text != argument.default_text) AddText(&range->scope, argument.name, text);
  }
}

void RecordOutputs(Recorder& recorder, OpRange* range, const std::vector<IValue>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string arg = outputs.size() == 1 ? "" : std::to_string(i);
    ForEachTensor(outputs[i], arg, [&](const at::Tensor& tensor, const std::string& place) {
      Capture(recorder, &range->scope, {Role::kOutput, place}, tensor);
    });
    const std::string text = TextOf(outputs[i]);
    if (!text.empty()) AddText(&range->scope, "returns", text);
  }
  for (const auto& [arg, weak] : range->written) {
    if (auto impl = weak.lock())
      Capture(recorder, &range->scope, {Role::kAfter, arg}, at::Tensor(std::move(impl)));
  }
}

void OpRange::End(const RecordFunction& range) {
  thread->open = nullptr;
  Runtime* runtime = CurrentRuntime();
  if (scope.call.begin == 0 || runtime == nullptr) return;
  const bool threw = std::uncaught_exceptions() > exceptions;
  if (!threw) RecordOutputs(*runtime->recorder, this, range.outputs());
  runtime->recorder->End(&scope, threw);
}

// The module an operator belongs to: of the forward in backward, else the innermost open one, or
// one below it whose parameter the operator takes.
OperatorId OwnerOf(const ThreadState& thread, const ModuleFrame* frame, const Runtime& runtime,
                   c10::ArrayRef<IValue> inputs) {
  OperatorId owner = frame != nullptr ? frame->op : kNoOperator;
  if (frame == nullptr && thread.in_node) owner = thread.origin.owner;
  if (owner != kNoOperator && runtime.operators->Get(owner).leaf) return owner;
  const CxxModules& modules = CxxModules::Get();
  if (!modules.watching()) return owner;
  OperatorId found = kNoOperator;
  for (const IValue& input : inputs)
    ForEachTensor(input, "", [&](const at::TensorBase& tensor, const std::string&) {
      if (found == kNoOperator && tensor.defined() && tensor.has_storage())
        found = modules.OwnerOfParameter(tensor.storage().data());
    });
  return found != kNoOperator ? found : owner;
}

OperatorId Intern(ThreadState* thread, Runtime* runtime, OperatorId owner, const AtenOperator* op) {
  OperatorId& known = thread->interned[owner].try_emplace(op, kNoOperator).first->second;
  if (known != kNoOperator) return known;
  OperatorInfo info;
  info.kind = OperatorKind::kAten;
  info.op = op->name;
  info.leaf = true;
  if (owner != kNoOperator) {
    const OperatorInfo& module = runtime->operators->Get(owner);
    info.root = module.root;
    info.path = module.path;
    info.cls = module.cls;
  }
  return known = runtime->operators->Intern(info);
}

std::unique_ptr<at::ObserverContext> StartOperator(Runtime* runtime, ThreadState* thread,
                                                   const RecordFunction& fn,
                                                   const AtenOperator* op) {
  const c10::ArrayRef<IValue> inputs = fn.inputs();
  if (TracingRegion() != nullptr || AnyWrapper(inputs))
    return std::make_unique<WrappedRange>(thread);
  if ((thread->wrapped > 0 || BelowPython()) && AllMeta(inputs)) return nullptr;
  if (thread->compiled > 0) {
    runtime->sink->note(
        "torch.compile: operators inside compiled code are not captured (not in this version)");
    return nullptr;
  }
  auto range = std::make_unique<OpRange>(thread, op);
  const ModuleFrame* frame = ModuleCalls::OfThread().top();
  const bool recompute = frame != nullptr && frame->recompute;
  const bool backward = !recompute && InBackward();
  if (backward) frame = nullptr;
  Recorder& recorder = *runtime->recorder;
  const OperatorId owner = OwnerOf(*thread, frame, *runtime, inputs);
  const uint32_t lane = backward && thread->in_node ? thread->origin.lane : recorder.Lane();
  if (!backward && fn.seqNr() >= 0)
    Origins().Note(runtime->gate->pass.load(std::memory_order_acquire),
                   RecordFunction::currentThreadId(), fn.seqNr(), {owner, lane});
  if (recorder.Begin(Intern(thread, runtime, owner, op), nullptr,
                     backward ? Phase::kBackward : Phase::kForward, recompute, &range->scope, lane))
    RecordInputs(recorder, range.get(), inputs);
  return range;
}

std::unique_ptr<at::ObserverContext> StartOrThrow(Runtime* runtime, const RecordFunction& fn) {
  ThreadState& thread = OfThread();
  if (thread.open != nullptr) return nullptr;
  switch (fn.scope()) {
    case at::RecordScope::BACKWARD_FUNCTION: {
      ForwardOrigin origin;
      if (!Origins().Find(fn.forwardThreadId(), fn.seqNr(), &origin)) origin = {};
      if (origin.owner == kNoOperator && !thread.in_node) return nullptr;
      return std::make_unique<NodeRange>(&thread, origin);
    }
    case at::RecordScope::FUNCTION:
    case at::RecordScope::USER_SCOPE:
      break;
    default:
      return nullptr;
  }
  const AtenOperator* op = thread.operators.Of(fn);
  if (op == nullptr) {
    return IsCompiledRegion(fn.name()) ? std::make_unique<CompiledRange>(&thread) : nullptr;
  }
  if (!op->followed) return nullptr;
  Activate(runtime);
  return runtime->gate->armed() ? StartOperator(runtime, &thread, fn, op) : nullptr;
}

std::unique_ptr<at::ObserverContext> OnStart(const RecordFunction& fn) {
  Runtime* runtime = CurrentRuntime();
  if (runtime == nullptr || runtime->gate->off() || fn.isAsync()) return nullptr;
  // What is called here must not come back here, and no other observer is to see it.
  at::DisableRecordFunctionGuard guard;
  try {
    return StartOrThrow(runtime, fn);
  } catch (...) {  // out of memory
    return nullptr;
  }
}

void OnEnd(const RecordFunction& fn, at::ObserverContext* context) {
  if (context == nullptr) return;
  at::DisableRecordFunctionGuard guard;
  try {
    static_cast<Range*>(context)->End(fn);
  } catch (...) {
  }
}

// ---- on and off ----

struct Switch {
  std::mutex mutex;
  at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
  bool on = false;
};

Switch& TheSwitch() {
  static auto* one = new Switch;
  return *one;
}

bool WantedNow(const Gate& gate) {
  const GateState state = gate.state.load(std::memory_order_acquire);
  return state == GateState::kArmed || state == GateState::kDormant;
}

}  // namespace

void StartAtenCollector(Runtime* runtime) {
  if (!runtime->collect_aten || !runtime->plan->wants_kind(OperatorKind::kAten)) return;
  {
    Switch& one = TheSwitch();
    std::lock_guard lock(one.mutex);
    if (one.handle != at::INVALID_CALLBACK_HANDLE) return;
    one.handle = at::addGlobalCallback(
        at::RecordFunctionCallback(OnStart, OnEnd)
            .needsInputs(true)
            .needsOutputs(true)
            .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION,
                     at::RecordScope::USER_SCOPE}));
    one.on = true;
  }
  FollowGate(runtime);
}

void FollowGate(Runtime* runtime) noexcept try {
  if (!runtime->collect_aten) return;
  Switch& one = TheSwitch();
  std::lock_guard lock(one.mutex);
  const bool on = WantedNow(*runtime->gate);
  if (one.handle == at::INVALID_CALLBACK_HANDLE || on == one.on) return;
  on ? at::reenableCallback(one.handle) : at::disableCallback(one.handle);
  one.on = on;
} catch (...) {  // LibTorch knows no such callback
}

}  // namespace tdump::collectors
