#include "collectors/torch/gradients.h"

#include <ATen/record_function.h>
#include <c10/util/DimVector.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <typeinfo>
#include <unordered_map>

#include "collectors/torch/capture.h"
#include "collectors/torch/dtype_table.h"
#include "collectors/torch/error_text.h"
#include "collectors/torch/plugin.h"
#include "collectors/torch/pool.h"
#include "collectors/torch/torch_state.h"
#include "core/fork_mutex.h"

namespace tdump::collectors {
namespace {

using torch::autograd::FunctionPreHook;
using torch::autograd::PostAccumulateGradHook;
using torch::autograd::Variable;
using torch::autograd::variable_list;
using torch::dynamo::autograd::CompiledNodeArgs;
using torch::dynamo::autograd::SwapSavedVariables;

// The last pass in which a gradient came, from 1 on; 0: none so far in this process.
std::atomic<uint64_t> came_in{0};

void NoteThatOneCame(const Gate& gate) {
  const uint64_t pass = gate.pass.load(std::memory_order_acquire) + 1;
  if (came_in.load(std::memory_order_relaxed) != pass)
    came_in.store(pass, std::memory_order_relaxed);
}

// Hooks that wait in graphs. A graph that goes takes the last of them; an output that nobody uses
// goes alone, while those of what runs before and beside it are there.
std::atomic<uint64_t> waiting{0};

constexpr const char* kNoneCame =
    "gradients were asked for, but calls ended without a backward: of these none is recorded";
constexpr const char* kTooLate =
    "gradients arrived after the step of their forward had ended: not recorded";
constexpr const char* kRewrittenBefore =
    "views were written in place; gradients of what they were may be missing";

// How many calls of an operator the forward had, so far, in the micro-batch seen last.
class ForwardCalls {
 public:
  static ForwardCalls& Get() {
    static auto* one = new ForwardCalls;  // never destroyed: graphs may outlive static destructors
    return *one;
  }
  void Note(const Call& call) {
    std::lock_guard lock(mutex_);
    Count& count = counts_[{call.op, call.lane}];
    const bool same = count.pass == call.pass && count.micro == call.micro;
    count = {call.pass, call.micro, same ? std::max(count.calls, call.index + 1) : call.index + 1};
  }
  uint64_t Of(const Call& call) const {
    std::lock_guard lock(mutex_);
    const auto it = counts_.find({call.op, call.lane});
    const bool known =
        it != counts_.end() && it->second.pass == call.pass && it->second.micro == call.micro;
    return known ? it->second.calls : call.index + 1;
  }

 private:
  struct Count {
    uint64_t pass = 0;
    uint32_t micro = 0;
    uint64_t calls = 0;
  };
  struct Hash {
    size_t operator()(const std::pair<OperatorId, uint32_t>& key) const {
      return key.first * 0x9e3779b97f4a7c15u ^ key.second;
    }
  };
  mutable ForkMutex mutex_;
  std::unordered_map<std::pair<OperatorId, uint32_t>, Count, Hash> counts_;
};

// One pool of the process for each kind of object. A training step makes as many as it has tensors
// with gradients, and frees them.
template <class Object>
Pool<Object>& PoolOf() {
  constexpr size_t kMost = 16384;
  static auto* one = new Pool<Object>(kMost);
  return *one;
}

template <class Object>
struct GiveBack {
  void operator()(Object* object) const noexcept { PoolOf<Object>().Give(object); }
};
template <class Object>
using Pooled = std::unique_ptr<Object, GiveBack<Object>>;

// One place of one call that a tensor had.
struct Place {
  Call call;  // of the forward
  Role role = Role::kOutput;
  bool late = false;
  std::string arg;
  std::atomic<uint64_t> fired{0};  // backward passes that came by
  std::atomic<bool> over{false};   // later ones belong to a later call
  Place* next = nullptr;

  // As it is from the start, but for the memory of the text.
  void Reset() {
    arg.clear();
    fired.store(0, std::memory_order_relaxed);
    over.store(false, std::memory_order_relaxed);
    next = nullptr;
  }
};

// A tensor that is a view, as it was. Written in place it gets a new node in the graph, and the one
// with its hook may go without a gradient, maybe after the tensor itself.
class WatchedView {
 public:
  void Watch(const at::TensorBase& tensor) {
    const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    if (!tensor.is_view() || impl.has_symbolic_sizes_strides()) return;
    counter_ = impl.version_counter();
    version_ = counter_->current_version();
    dtype_ = tensor.scalar_type();
    sizes_ = impl.sizes_default();
  }
  bool rewritten() const { return counter_ && counter_->current_version() != version_; }
  TensorMeta meta() const {
    TensorMeta meta;
    meta.dtype = InfoOf(dtype_).dtype;
    meta.sizes = {sizes_.data(), sizes_.size()};
    return meta;
  }

 private:
  std::optional<c10::VariableVersion> counter_;  // shared with the tensor and what it is a view of
  uint32_t version_ = 0;
  at::ScalarType dtype_ = at::ScalarType::Undefined;
  c10::DimVector sizes_;
};

// Of one tensor: all places it had, for which it is one gradient.
class GradientHook final : public FunctionPreHook {
 public:
  explicit GradientHook(const at::TensorBase& tensor)
      : output_(static_cast<uint32_t>(tensor.output_nr())), in_graph_(tensor.grad_fn() != nullptr) {
    view_.Watch(tensor);
    if (in_graph_) waiting.fetch_add(1, std::memory_order_relaxed);
  }
  ~GradientHook() override {
    if (in_graph_) waiting.fetch_sub(1, std::memory_order_relaxed);
    if (view_.rewritten())
      RecordAsLost();
    else if (came_in.load(std::memory_order_relaxed) == 0 &&
             waiting.load(std::memory_order_relaxed) == 0)
      NoteNoneCame();
    for (Place* place = places_.load(); place != nullptr;)
      GiveBack<Place>()(std::exchange(place, place->next));
  }
  GradientHook(const GradientHook&) = delete;
  // Torch owns and frees hooks one by one; the memory comes from a pool and goes back to it.
  static void* operator new(size_t bytes);
  static void operator delete(void* hook) noexcept;

  uint32_t output() const { return output_; }
  // Any thread, also while another runs a backward through the same node.
  void Add(Pooled<Place> place) {
    // The tensor is given again after a backward: what comes now is of the new call.
    for (Place* known = places_.load(); known != nullptr; known = known->next) {
      if (known->call.op == place->call.op && known->role == place->role &&
          known->arg == place->arg && known->fired.load(std::memory_order_relaxed) != 0)
        known->over.store(true, std::memory_order_relaxed);
    }
    place->next = places_.load(std::memory_order_relaxed);
    while (!places_.compare_exchange_weak(place->next, place.get(), std::memory_order_release)) {
    }
    (void)place.release();
  }
  // Whether every place belongs to another pass: a leaf keeps its hook from step to step.
  bool IsOld(uint64_t pass) const {
    for (const Place* place = places_.load(); place != nullptr; place = place->next) {
      if (place->call.pass == pass) return false;
    }
    return true;
  }

  variable_list operator()(const variable_list& gradients) override {
    if (output_ < gradients.size() && gradients[output_].defined()) Record(gradients[output_]);
    return gradients;
  }
  void compiled_args(CompiledNodeArgs&) const override {}

 private:
  void Record(const at::TensorBase& gradient) noexcept;
  void RecordAsLost() const noexcept;

  // The graph goes before the first gradient of all came. (Later on it is usual that some outputs
  // are not used.)
  void NoteNoneCame() const noexcept {
    Runtime* runtime = CurrentRuntime();
    if (runtime != nullptr && runtime->gate->armed()) runtime->sink->note(kNoneCame);
  }

  const uint32_t output_;
  const bool in_graph_;  // not at a leaf
  WatchedView view_;
  std::atomic<Place*> places_{nullptr};  // the newest first
};

struct alignas(GradientHook) HookMemory {
  std::byte bytes[sizeof(GradientHook)];
};

void* GradientHook::operator new(size_t) { return PoolOf<HookMemory>().Take(); }

void GradientHook::operator delete(void* hook) noexcept {
  PoolOf<HookMemory>().Give(static_cast<HookMemory*>(hook));
}

bool IsPresent(const Runtime* runtime, const Call& forward) {
  return forward.pass == runtime->gate->pass.load(std::memory_order_acquire);
}

// The backward call of a forward behind `before` others. Null: nothing is to be recorded.
Pooled<Recorder::CallScope> BeginAt(Runtime* runtime, const Call& forward, uint64_t before) {
  Pooled<Recorder::CallScope> scope(PoolOf<Recorder::CallScope>().Take());
  if (!runtime->recorder->BeginDetached(forward.op, scope.get())) return nullptr;
  Call& call = scope->call;
  call.index = forward.index;
  if (before != 0) call.index += before * ForwardCalls::Get().Of(forward);
  call.micro = forward.micro;
  call.chunk = forward.chunk;
  call.lane = forward.lane;
  call.recompute = forward.recompute;
  call.compiled = forward.compiled;
  call.phase = Phase::kBackward;
  return scope;
}

void RecordOf(Runtime* runtime, const Call& forward, const Seen& seen, uint64_t before,
              const at::TensorBase& gradient) {
  if (!IsPresent(runtime, forward)) return runtime->sink->note(kTooLate);
  const Pooled<Recorder::CallScope> scope = BeginAt(runtime, forward, before);
  if (scope != nullptr) Capture(*runtime->recorder, scope.get(), seen, gradient);
}

void RecordAt(Runtime* runtime, Place* place, const at::TensorBase& gradient,
              SharedRecord* shared) {
  const uint64_t before = place->fired.fetch_add(1, std::memory_order_relaxed);
  RecordOf(runtime, place->call, {place->role, place->arg, place->late, "", shared}, before,
           gradient);
}

void SkipAt(Runtime* runtime, const Place& place, const TensorMeta& meta) {
  if (came_in.load(std::memory_order_relaxed) <= place.call.pass) return;  // no backward ran
  // The node goes within a backward, when what wrote the view has been worked through. Else that is
  // kept, or the view was written after the backward, and none used it.
  if (!InBackward() || !IsPresent(runtime, place.call))
    return runtime->sink->note(kRewrittenBefore);
  const Pooled<Recorder::CallScope> scope = BeginAt(runtime, place.call, 0);
  if (scope == nullptr || !Wants(*runtime->recorder, *scope, place.role)) return;
  Observation observation;
  observation.role = place.role;
  observation.arg = place.arg;
  observation.meta = meta;
  observation.late = place.late;
  const Decision decision = runtime->recorder->Ask(scope.get(), observation);
  if (decision.parts == kPartNone) return;
  observation.dims = decision.dims;
  observation.filter_sets = decision.filter_sets;
  runtime->sink->skip(scope->call, observation, decision, SkipReason::kRewritten, "");
}

void GradientHook::Record(const at::TensorBase& gradient) noexcept try {
  Runtime* runtime = CurrentRuntime();
  if (runtime == nullptr || runtime->gate->off()) return;
  NoteThatOneCame(*runtime->gate);
  at::DisableRecordFunctionGuard guard;
  SharedRecord shared;
  for (Place* place = places_.load(std::memory_order_acquire); place != nullptr;
       place = place->next) {
    if (!place->over.load(std::memory_order_relaxed)) RecordAt(runtime, place, gradient, &shared);
  }
} catch (...) {  // out of memory
}

void GradientHook::RecordAsLost() const noexcept try {
  Runtime* runtime = CurrentRuntime();
  if (runtime == nullptr || runtime->gate->off()) return;
  for (const Place* place = places_.load(std::memory_order_acquire); place != nullptr;
       place = place->next) {
    const bool came = place->fired.load(std::memory_order_relaxed) != 0;
    if (!came && !place->over.load(std::memory_order_relaxed))
      SkipAt(runtime, *place, view_.meta());
  }
} catch (...) {  // out of memory
}

// ---- where the hook of a tensor is ----

GradientHook* Find(std::vector<std::unique_ptr<FunctionPreHook>>& hooks, uint32_t output) {
  for (const std::unique_ptr<FunctionPreHook>& hook : hooks) {
    if (hook == nullptr || typeid(*hook) != typeid(GradientHook)) continue;
    auto* ours = static_cast<GradientHook*>(hook.get());
    if (ours->output() == output) return ours;
  }
  return nullptr;
}

GradientHook* HookOf(const at::TensorBase& tensor, uint64_t pass) {
  if (const auto& node = tensor.grad_fn()) {
    const auto output = static_cast<uint32_t>(tensor.output_nr());
    if (GradientHook* hook = Find(node->tensor_pre_hooks(), output)) return hook;
    auto hook = std::make_unique<GradientHook>(tensor);
    GradientHook* added = hook.get();
    node->add_tensor_pre_hook(std::move(hook));
    return added;
  }
  auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  if (meta == nullptr) return nullptr;
  std::vector<std::unique_ptr<FunctionPreHook>>& hooks = meta->hooks_;
  std::erase_if(hooks, [&](const std::unique_ptr<FunctionPreHook>& hook) {
    return hook != nullptr && typeid(*hook) == typeid(GradientHook) &&
           static_cast<GradientHook*>(hook.get())->IsOld(pass);
  });
  if (GradientHook* hook = Find(hooks, 0)) return hook;
  auto hook = std::make_unique<GradientHook>(tensor);
  GradientHook* added = hook.get();
  // Torch's add_hook() takes one alone. Before what the job has there, which may change the
  // gradient.
  hooks.insert(hooks.begin(), std::move(hook));
  return added;
}

// A tensor that a transform of functorch made lives at a level of its own, and has no gradient
// that autograd would show.
bool IsTransformed(const at::TensorBase& tensor) {
  const c10::DispatchKeySet keys = tensor.unsafeGetTensorImpl()->key_set();
  return keys.has(c10::DispatchKey::FuncTorchBatched) ||
         keys.has(c10::DispatchKey::FuncTorchGradWrapper) || keys.has(c10::DispatchKey::Batched) ||
         keys.has(c10::DispatchKey::Functionalize);
}

void WatchOrThrow(const Recorder::CallScope& scope, Role role, std::string_view arg, bool late,
                  const at::TensorBase& tensor) {
  if (!tensor.defined() || !tensor.requires_grad() || IsTransformed(tensor)) return;
  GradientHook* hook = HookOf(tensor, scope.call.pass);
  if (hook == nullptr) return;
  Pooled<Place> place(PoolOf<Place>().Take());
  place->Reset();
  place->call = scope.call;
  place->role = role;
  place->late = late;
  place->arg = arg;
  if (!scope.call.recompute) ForwardCalls::Get().Note(scope.call);
  hook->Add(std::move(place));
}

// ---- parameters ----

// Takes the one place that a tensor has for hooks after the accumulation, and runs the hook that
// was there. Autograd runs it under the lock of the node that accumulates.
class ParameterHook final : public PostAccumulateGradHook {
 public:
  ParameterHook(OperatorId op, std::string_view name) : gradient_(op, name) {}

  bool IsOf(OperatorId op, std::string_view name) const { return gradient_.IsOf(op, name); }
  // The hook that the job had put there; may be null.
  void Adopt(std::unique_ptr<PostAccumulateGradHook> jobs) noexcept { jobs_ = std::move(jobs); }
  std::unique_ptr<PostAccumulateGradHook> TakeJobs() noexcept { return std::move(jobs_); }

  void operator()(const Variable& parameter) override {
    gradient_.Record(parameter.grad());
    if (jobs_ != nullptr) (*jobs_)(parameter);
  }
  void compiled_args(CompiledNodeArgs& args) const override {
    if (jobs_ != nullptr) jobs_->compiled_args(args);
  }
  void apply_with_saved(Variable& parameter, SwapSavedVariables& saved) override {
    if (jobs_ != nullptr) jobs_->apply_with_saved(parameter, saved);
  }

 private:
  ParameterGradient gradient_;
  std::unique_ptr<PostAccumulateGradHook> jobs_;
};

void WatchParameterOrThrow(OperatorId op, std::string_view name, const at::TensorBase& parameter) {
  if (!parameter.defined() || !parameter.requires_grad() || !parameter.is_leaf()) return;
  auto* meta = torch::autograd::impl::get_autograd_meta(parameter);
  if (meta == nullptr) return;
  std::unique_ptr<PostAccumulateGradHook>& slot = meta->post_acc_grad_hooks_;
  ParameterHook* known = slot != nullptr && typeid(*slot) == typeid(ParameterHook)
                             ? static_cast<ParameterHook*>(slot.get())
                             : nullptr;
  if (known != nullptr && known->IsOf(op, name)) return;
  // The job's hook moves once nothing can throw any more.
  auto hook = std::make_unique<ParameterHook>(op, name);
  hook->Adopt(known != nullptr ? known->TakeJobs() : std::move(slot));
  slot = std::move(hook);
}

template <class Work>
void NotingWhatFails(Work work) noexcept {
  try {
    work();
  } catch (const std::exception& error) {
    if (Runtime* runtime = CurrentRuntime())
      runtime->sink->note("the gradient of a tensor cannot be recorded: " + WhatOf(error));
  } catch (...) {
  }
}

}  // namespace

void ParameterGradient::Record(const at::TensorBase& gradient) noexcept try {
  Runtime* runtime = CurrentRuntime();
  if (runtime == nullptr || !runtime->gate->armed()) return;
  if (!gradient.defined()) return;
  if (!runtime->recorder->BeginDetached(op_, &scope_)) return;
  if (!WantsGradient(*runtime->recorder, scope_, Role::kParamGrad)) return;
  const uint32_t micro = runtime->gate->micro.load(std::memory_order_relaxed);
  if (scope_.call.pass != pass_ || micro != micro_) count_ = 0;
  pass_ = scope_.call.pass;
  micro_ = micro;
  scope_.call.index = count_++;
  scope_.call.micro = micro;
  scope_.call.phase = Phase::kBackward;
  at::DisableRecordFunctionGuard guard;
  Capture(*runtime->recorder, &scope_, {Role::kParamGrad, name_}, gradient);
} catch (...) {  // out of memory
}

void WatchGradient(const Recorder::CallScope& scope, Role role, std::string_view arg, bool late,
                   const at::TensorBase& tensor) noexcept {
  NotingWhatFails([&] { WatchOrThrow(scope, role, arg, late, tensor); });
}

void ExpectGradient(const Call& forward) noexcept {
  NotingWhatFails([&] {
    if (!forward.recompute) ForwardCalls::Get().Note(forward);
  });
}

void RecordGradient(const Call& forward, const Seen& seen, uint64_t before,
                    const at::TensorBase& gradient) noexcept {
  Runtime* runtime = CurrentRuntime();
  if (runtime == nullptr || runtime->gate->off()) return;
  NoteThatOneCame(*runtime->gate);
  at::DisableRecordFunctionGuard guard;
  NotingWhatFails([&] { RecordOf(runtime, forward, seen, before, gradient); });
}

void WatchParameterGradient(OperatorId op, std::string_view name,
                            const at::TensorBase& parameter) noexcept {
  NotingWhatFails([&] { WatchParameterOrThrow(op, name, parameter); });
}

}  // namespace tdump::collectors
