#include "collectors/torch/aten_collector.h"

#include <ATen/core/TensorBase.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <exception>
#include <new>
#include <string_view>

#include "collectors/torch/aten_operators.h"
#include "collectors/torch/capture.h"
#include "collectors/torch/cxx_modules.h"
#include "collectors/torch/forward_origins.h"
#include "collectors/torch/known_names.h"
#include "collectors/torch/module_calls.h"
#include "collectors/torch/plugin.h"
#include "collectors/torch/torch_state.h"
#include "core/fork_mutex.h"
#include "core/index_text.h"

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
  static void* operator new(size_t bytes);
  static void operator delete(void* block, size_t bytes);
  ThreadState* thread;
};

constexpr size_t kRangeBytes = 64;  // of the largest kind of range

// Of an operator of which nothing is wanted. Only the outermost operator of a thread has a range,
// so each thread has one for good: LibTorch's delete leaves it.
struct ClosedRange final : Range {
  using Range::Range;
  void End(const RecordFunction&) override;
  static void operator delete(ClosedRange*, std::destroying_delete_t) {}
};

// A written argument, for its state afterwards. Weak: LibTorch must not see a further owner.
struct Written {
  uint32_t argument;  // of the schema
  int32_t item;       // of a list; -1: the argument itself
  WeakTensor tensor;
};

struct ThreadState {
  AtenOperators operators;
  ModuleCalls& calls = ModuleCalls::OfThread();
  bool open = false;  // inside an operator: nothing below it is looked at
  int wrapped = 0;    // inside an operator on tensors that only stand for others
  int compiled = 0;   // inside code that torch.compile or AOTInductor made
  // Inside a node of the autograd graph whose forward is known, or after it while the engine sums
  // what it gave.
  bool in_node = false;
  bool after_node = false;
  ForwardOrigin origin;
  ForwardOrigin last_origin;

  // Of the open operator, here because they keep their room from one to the next.
  Recorder::CallScope scope;
  std::vector<Written> written;
  std::vector<void*> free_ranges;
  ClosedRange closed{this};
  ForwardOrigins::Log* origins = nullptr;

  ~ThreadState();
};

constinit thread_local ThreadState* of_thread = nullptr;
constinit thread_local bool thread_ended = false;

ThreadState::~ThreadState() {
  of_thread = nullptr;
  thread_ended = true;
  for (void* block : free_ranges) ::operator delete(block);
  if (origins != nullptr) ForwardOrigins::Retire(origins);
}

// Null while the thread's variables are being destroyed.
ThreadState* OfThread() {
  if (of_thread != nullptr || thread_ended) [[likely]]
    return of_thread;
  static thread_local ThreadState state;
  return of_thread = &state;
}

void* Range::operator new(size_t bytes) {
  ThreadState* thread = OfThread();
  if (bytes > kRangeBytes || thread == nullptr || thread->free_ranges.empty())
    return ::operator new(std::max(bytes, kRangeBytes));
  void* block = thread->free_ranges.back();
  thread->free_ranges.pop_back();
  return block;
}

void Range::operator delete(void* block, size_t bytes) {
  ThreadState* thread = OfThread();
  if (bytes <= kRangeBytes && thread != nullptr) {
    try {
      return thread->free_ranges.push_back(block);
    } catch (...) {  // out of memory
    }
  }
  ::operator delete(block);
}

void ClosedRange::End(const RecordFunction&) { thread->open = false; }

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
    thread->after_node = true;
    thread->last_origin = thread->origin;
    thread->in_node = outer_in_node;
    thread->origin = outer;
  }
  bool outer_in_node;
  ForwardOrigin outer;
};

// The forward that the present backward work belongs to, null when it is not known.
const ForwardOrigin* CauseOf(const ThreadState& thread) {
  if (thread.in_node) return &thread.origin;
  return thread.after_node ? &thread.last_origin : nullptr;
}

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

// Visits the tensors in a value, with their position in a list or -1.
template <class Visitor>
void ForEachTensor(const IValue& value, Visitor visit) {
  if (value.isTensor()) return visit(value.toTensor(), -1);
  if (!value.isList()) return;
  int32_t number = 0;
  for (const IValue& item : value.toListRef()) {
    if (item.isTensor()) {
      visit(item.toTensor(), number++);
    } else if (item.isTensorList()) {  // of collectives: by rank
      for (const IValue& inner : item.toListRef()) visit(inner.toTensor(), number++);
    } else {
      ++number;
    }
  }
}

bool AnyWrapper(c10::ArrayRef<IValue> values) {
  bool found = false;
  for (const IValue& value : values)
    ForEachTensor(
        value, [&](const at::TensorBase& tensor, int32_t) { found = found || IsWrapper(tensor); });
  return found;
}

// A shape without data, as the inner operators of a fake tensor have.
bool AllMeta(c10::ArrayRef<IValue> values) {
  bool other = false;
  for (const IValue& value : values)
    ForEachTensor(value, [&](const at::TensorBase& tensor, int32_t) {
      other = other || (tensor.defined() && !tensor.is_meta());
    });
  return !other;
}

// The place of a tensor as a record has it: "1", "1.0" within a list, "0" within a list that is the
// only result.
class Place {
 public:
  Place(std::string_view arg, int32_t item) {
    if (item < 0) {
      text_ = arg;
      return;
    }
    const size_t length = std::min(arg.size(), sizeof buffer_ - 1 - IndexText::kMaxBytes);
    char* at = std::copy_n(arg.data(), length, buffer_);
    if (length != 0) *at++ = '.';
    at = IndexText::Copy(static_cast<uint64_t>(item), at);
    text_ = {buffer_, static_cast<size_t>(at - buffer_)};
  }
  Place(const Place&) = delete;
  std::string_view text() const { return text_; }

 private:
  char buffer_[128];
  std::string_view text_;
};

// Python has handled an operator and works on what its tensors stand for (a fake tensor is made).
bool BelowPython(const c10::impl::LocalDispatchKeySet& keys) {
  return keys.excluded_.has(DispatchKey::Python);
}

// TracingRegion() need not be asked else: a mode of Python's dispatch and the tracer each include a
// key of theirs for as long as they are on.
bool MayTrace(const c10::impl::LocalDispatchKeySet& keys) {
  return !(keys.included_ - c10::default_included_set).empty() || BelowPython(keys);
}

// ---- operators ----

// From the begin of an operator to its end: what is recorded of it is in the thread's state.
struct OpRange final : Range {
  OpRange(ThreadState* state, const AtenOperator* of)
      : Range(state), op(of), exceptions(std::uncaught_exceptions()) {
    state->open = true;
    state->scope.call.begin = 0;
    state->written.clear();
  }
  ~OpRange() override {
    if (!ended) thread->open = false;
  }
  void End(const RecordFunction& range) override;

  const AtenOperator* op;
  int exceptions;
  bool ended = false;
};

void RecordInputs(Recorder& recorder, OpRange* range, c10::ArrayRef<IValue> inputs) {
  Recorder::CallScope* scope = &range->thread->scope;
  if (!range->op->overload.empty()) scope->text.AddText("overload", range->op->overload);
  const std::vector<AtenOperator::Argument>& arguments = range->op->arguments;
  for (size_t i = 0; i < inputs.size() && i < arguments.size(); ++i) {
    const AtenOperator::Argument& argument = arguments[i];
    if (range->op->collective && argument.name.starts_with("output")) continue;  // only written
    ForEachTensor(inputs[i], [&](const at::Tensor& tensor, int32_t item) {
      const Place place(argument.arg, item);
      Capture(recorder, scope, {argument.written ? Role::kBefore : Role::kInput, place.text()},
              tensor);
      if (argument.written && tensor.defined())
        range->thread->written.push_back(
            {static_cast<uint32_t>(i), item, WeakTensor(tensor.getIntrusivePtr())});
    });
    if (inputs[i].isTensor() || IsDefault(inputs[i], argument)) continue;
    if (inputs[i].isNone() && !argument.default_value.isNone())
      scope->text.AddText(argument.name, "None");
    AddValue(argument.name, inputs[i], &scope->text);
  }
}

void RecordOutputs(Recorder& recorder, OpRange* range, const std::vector<IValue>& outputs) {
  Recorder::CallScope* scope = &range->thread->scope;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Place number("", static_cast<int32_t>(i));
    const std::string_view arg = outputs.size() == 1 ? "" : number.text();
    ForEachTensor(outputs[i], [&](const at::Tensor& tensor, int32_t item) {
      Capture(recorder, scope,
              {.role = Role::kOutput,
               .arg = Place(arg, item).text(),
               .under_way = range->op->collective},
              tensor);
    });
    AddValue("returns", outputs[i], &scope->text);
  }
  for (const Written& one : range->thread->written) {
    const Place place(range->op->arguments[one.argument].arg, one.item);
    if (auto impl = one.tensor.lock())
      Capture(recorder, scope,
              {.role = Role::kAfter, .arg = place.text(), .under_way = range->op->collective},
              at::Tensor(std::move(impl)));
  }
}

void OpRange::End(const RecordFunction& range) {
  Recorder::CallScope& scope = thread->scope;
  Runtime* runtime = CurrentRuntime();
  if (scope.call.begin != 0 && runtime != nullptr) {
    const bool threw = std::uncaught_exceptions() > exceptions;
    if (!threw) RecordOutputs(*runtime->recorder, this, range.outputs());
    runtime->recorder->End(&scope, threw);
    thread->written.clear();
  }
  thread->open = false;
  ended = true;
}

// The module an operator belongs to: of the forward in backward, else the innermost open one, or
// one below it whose parameter the operator takes.
OperatorId OwnerOf(const ForwardOrigin* cause, const ModuleFrame* frame, const Runtime& runtime,
                   c10::ArrayRef<IValue> inputs) {
  OperatorId owner = frame != nullptr ? frame->op : kNoOperator;
  if (cause != nullptr) owner = cause->owner;
  if (owner != kNoOperator && runtime.operators->Get(owner).leaf) return owner;
  if (!CxxModules::watching()) return owner;
  const CxxModules& modules = CxxModules::Get();
  OperatorId found = kNoOperator;
  for (const IValue& input : inputs)
    ForEachTensor(input, [&](const at::TensorBase& tensor, int32_t) {
      if (found == kNoOperator && tensor.defined() && tensor.has_storage())
        found = modules.OwnerOfParameter(tensor.storage().data());
    });
  return found != kNoOperator ? found : owner;
}

// Nothing of the operator is wanted, whatever the call.
bool IsRejected(Runtime* runtime, OperatorId id) {
  if (id == kNoOperator) return false;
  const RuleId rule = runtime->plan->op(id, runtime->operators->Get(id), nullptr);
  return rule == kNoRule || !runtime->plan->wants_calls(rule);
}

// For the backward operators of the node that this operator makes.
void NoteOrigin(const Runtime* runtime, ThreadState* thread, int64_t sequence, OperatorId owner) {
  if (thread->origins == nullptr)
    thread->origins = Origins().Open(RecordFunction::currentThreadId());
  Origins().Note(thread->origins, runtime->gate->pass.load(std::memory_order_acquire), sequence,
                 {owner, runtime->recorder->Lane()});
}

std::unique_ptr<at::ObserverContext> StartOperator(Runtime* runtime, ThreadState* thread,
                                                   const RecordFunction& fn,
                                                   const AtenOperator* op) {
  const c10::ArrayRef<IValue> inputs = fn.inputs();
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  if ((MayTrace(keys) && TracingRegion() != nullptr) || AnyWrapper(inputs))
    return std::make_unique<WrappedRange>(thread);
  if ((thread->wrapped > 0 || BelowPython(keys)) && AllMeta(inputs)) return nullptr;
  if (thread->compiled > 0) {
    runtime->sink->note(
        "torch.compile: operators inside compiled code are not captured (not in this version)");
    return nullptr;
  }
  const ModuleFrame* frame = thread->calls.top();
  const bool recompute = frame != nullptr && frame->recompute;
  const bool backward = !recompute && InBackward();
  if (backward) frame = nullptr;
  const ForwardOrigin* cause = backward ? CauseOf(*thread) : nullptr;
  const OperatorId owner = OwnerOf(cause, frame, *runtime, inputs);
  if (!backward && fn.seqNr() >= 0) NoteOrigin(runtime, thread, fn.seqNr(), owner);
  AtenOperators::Id& known = thread->operators.IdBelow(owner, *op);
  const uint64_t pass = runtime->gate->pass.load(std::memory_order_acquire);
  if (known.rejected_in == pass) {
    thread->open = true;
    return std::unique_ptr<at::ObserverContext>(&thread->closed);
  }
  auto range = std::make_unique<OpRange>(thread, op);
  std::optional<uint32_t> lane;
  if (cause != nullptr) lane = cause->lane;
  Recorder& recorder = *runtime->recorder;
  if (known.id == kNoOperator)
    known.id = InternBelow(runtime->operators, OperatorKind::kAten, owner, op->name);
  if (recorder.Begin(known.id, nullptr, backward ? Phase::kBackward : Phase::kForward, recompute,
                     &thread->scope, lane)) {
    RecordInputs(recorder, range.get(), inputs);
  } else if (IsRejected(runtime, known.id)) {
    known.rejected_in = pass;
  }
  return range;
}

std::unique_ptr<at::ObserverContext> StartNode(ThreadState* thread, const RecordFunction& fn) {
  ForwardOrigin origin;
  if (!Origins().Find(fn.forwardThreadId(), fn.seqNr(), &origin)) {
    if (!thread->in_node) return nullptr;
    origin = {};
  }
  return std::make_unique<NodeRange>(thread, origin);
}

// Called for every operator of the job: what most of them need comes first. Nothing here calls an
// operator, so LibTorch's guard against that, which costs several allocations, is only where
// activation runs code of others.
std::unique_ptr<at::ObserverContext> StartOrThrow(Runtime* runtime, ThreadState* thread,
                                                  const RecordFunction& fn) {
  if (fn.scope() == at::RecordScope::BACKWARD_FUNCTION) return StartNode(thread, fn);
  const AtenOperator* op = thread->operators.Of(fn);
  if (op == nullptr) {
    const std::string_view name = fn.name();
    if (name.starts_with("autograd::engine::evaluate_function")) thread->after_node = false;
    return IsCompiledRegion(name) ? std::make_unique<CompiledRange>(thread) : nullptr;
  }
  if (!op->followed) return nullptr;
  if (!runtime->gate->armed()) {
    at::DisableRecordFunctionGuard guard;
    Activate(runtime);
    if (!runtime->gate->armed()) return nullptr;
  }
  return StartOperator(runtime, thread, fn, op);
}

std::unique_ptr<at::ObserverContext> OnStart(const RecordFunction& fn) {
  Runtime* runtime = CurrentRuntime();
  if (runtime == nullptr || runtime->gate->off() || fn.isAsync()) return nullptr;
  ThreadState* thread = OfThread();
  if (thread == nullptr || thread->open) return nullptr;
  try {
    return StartOrThrow(runtime, thread, fn);
  } catch (...) {  // out of memory
    return nullptr;
  }
}

void OnEnd(const RecordFunction& fn, at::ObserverContext* context) {
  if (context == nullptr) return;
  try {
    static_cast<Range*>(context)->End(fn);
  } catch (...) {
  }
}

// ---- on and off ----

struct Switch {
  ForkMutex mutex;
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
  AtenOperators::FollowDispatcher();
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
