#include "collectors/torch/scripted_calls.h"

#include <ATen/core/class_type.h>
#include <ATen/record_function.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collectors/torch/capture.h"
#include "collectors/torch/cxx_scripts.h"
#include "collectors/torch/error_text.h"
#include "collectors/torch/gradients.h"
#include "collectors/torch/module_calls.h"
#include "collectors/torch/plugin.h"
#include "collectors/torch/scripted_graph.h"
#include "collectors/torch/torch_state.h"
#include "core/fork_mutex.h"
#include "core/index_text.h"

namespace tdump::collectors {
namespace {

namespace jit = torch::jit;
using at::IValue;
using c10::ivalue::Object;

std::atomic<decltype(ScriptedHost::begin)> python_begin = nullptr;

// ---- what is taken and given ----

// Short enough to allocate nothing.
std::string NumberText(uint64_t number) {
  char digits[IndexText::kMaxBytes];
  return std::string(digits, IndexText::Copy(number, digits));
}

std::string KeyText(int64_t key) {
  const auto size = static_cast<uint64_t>(key);
  return key < 0 ? NumberText(0 - size).insert(0, "-") : NumberText(size);
}

// Visits the tensors of a value under the names they have in eager code
// (collectors/python/flatten.h).
class Values {
 public:
  Values(Recorder& recorder, Recorder::CallScope* scope, Role role)
      : recorder_(recorder),
        scope_(scope),
        role_(role),
        gradient_(role == Role::kInput ? Role::kGradInput : Role::kGradOutput),
        gradients_(WantsGradient(recorder, *scope, gradient_)) {}

  void Visit(const IValue& value, const std::string& arg) {
    if (value.isTensor()) return VisitTensor(value.toTensor(), arg);
    if (++depth_ <= kDeepest) VisitItems(value, arg);
    --depth_;
  }

 private:
  static constexpr int kDeepest = 32;

  static std::string Part(const std::string& arg, std::string_view name) {
    std::string part = arg.empty() ? "" : arg + ".";
    return part.append(name);
  }

  void VisitItems(const IValue& value, const std::string& arg) {
    if (value.isTuple()) {
      VisitTuple(value.toTupleRef(), arg);
    } else if (value.isList()) {
      size_t index = 0;
      for (const IValue& item : value.toListRef()) Visit(item, Part(arg, NumberText(index++)));
    } else if (value.isGenericDict()) {
      VisitDict(value.toGenericDict(), arg);
    }
  }

  void VisitTuple(const c10::ivalue::Tuple& tuple, const std::string& arg) {
    const auto& schema = tuple.type()->schema();  // of a named tuple
    for (size_t i = 0; i < tuple.elements().size(); ++i) {
      const bool named = schema != nullptr && i < schema->arguments().size();
      Visit(tuple.elements()[i], Part(arg, named ? schema->arguments()[i].name() : NumberText(i)));
    }
  }

  void VisitDict(const c10::impl::GenericDict& dict, const std::string& arg) {
    size_t position = 0;
    for (const auto& item : dict) {
      const IValue& key = item.key();
      std::string name = NumberText(position++).insert(0, "key");
      if (key.isString()) name = key.toStringRef();
      if (key.isInt()) name = KeyText(key.toInt());
      Visit(item.value(), Part(arg, name));
    }
  }

  void VisitTensor(const at::Tensor& tensor, const std::string& arg) {
    if (!tensor.defined()) return;
    Capture(recorder_, scope_, {role_, arg}, tensor);
    if (gradients_) WatchGradient(*scope_, gradient_, arg, /*late=*/false, tensor);
  }

  Recorder& recorder_;
  Recorder::CallScope* scope_;
  Role role_, gradient_;
  bool gradients_;
  int depth_ = 0;
};

// ---- calls ----

// Calls of this thread that scripted_begin opened. One that an exception ended is no longer among
// the open calls of modules.
struct OpenScripted {
  const Object* object;
  uint64_t serial;
};

std::vector<OpenScripted>& OpenOfThread() {
  static thread_local std::vector<OpenScripted> open;
  return open;
}

void Begin(Runtime* runtime, const Object& object, std::span<const IValue> arguments) {
  ModuleCalls& calls = ModuleCalls::OfThread();
  // Within another call nothing depends on it, unless something is recorded.
  if (!calls.empty() && !runtime->gate->armed()) return;
  if (TracingRegion() != nullptr) return;
  std::vector<OpenScripted>& open = OpenOfThread();
  while (!open.empty() && calls.WithSerial(open.back().serial) == nullptr) open.pop_back();
  open.reserve(open.size() + 1);
  const auto begin = python_begin.load(std::memory_order_acquire);
  uint64_t serial = begin != nullptr ? begin(&object) : 0;
  if (serial == 0) serial = BeginCxxScript(&object);
  ModuleFrame* frame = serial != 0 ? calls.WithSerial(serial) : nullptr;
  if (frame == nullptr) return;
  open.push_back({&object, serial});
  if (!runtime->recorder->Begin(frame->op, frame->module, Phase::kForward, frame->recompute,
                                &frame->scope))
    return;
  frame->scope.call.compiled = !frame->is_root;  // that call comes from outside
  Values values(*runtime->recorder, &frame->scope, Role::kInput);
  for (size_t i = 0; i < arguments.size(); ++i) values.Visit(arguments[i], NumberText(i));
}

void End(Runtime* runtime, const Object& object, const IValue& result) {
  std::vector<OpenScripted>& open = OpenOfThread();
  if (open.empty() || open.back().object != &object) return;
  ModuleCalls& calls = ModuleCalls::OfThread();
  ModuleFrame* frame = calls.WithSerial(open.back().serial);
  open.pop_back();
  if (frame == nullptr) return;
  calls.UnwindTo(runtime, frame);
  if (frame->scope.call.begin != 0)
    Values(*runtime->recorder, &frame->scope, Role::kOutput).Visit(result, "");
  calls.Pop(runtime, /*threw=*/false);
}

// Runs `step` on what the node is given, and takes that off the stack.
template <class Step>
jit::Operation Observing(const jit::Node* node, Step step) {
  const size_t count = node->inputs().size();
  return [count, step](jit::Stack& stack) {
    Runtime* runtime = CurrentRuntime();
    if (runtime != nullptr && !runtime->gate->off()) {
      try {
        const at::DisableRecordFunctionGuard unseen;
        const std::span<const IValue> given(&jit::peek(stack, 0, count), count);
        step(runtime, given[0].toObjectRef(), given.subspan(1));
      } catch (...) {  // out of memory: nothing is recorded
      }
    }
    jit::drop(stack, count);
  };
}

jit::Operation BeginOf(const jit::Node* node) { return Observing(node, Begin); }

jit::Operation EndOf(const jit::Node* node) {
  return Observing(node, [](Runtime* runtime, const Object& object, std::span<const IValue> given) {
    End(runtime, object, given[0]);
  });
}

// ---- script modules ----

// Those that Python has named, by address.
class Objects {
 public:
  static Objects& Get() {
    static auto* one = new Objects;  // never destroyed: modules are called late
    return *one;
  }
  void Add(const c10::intrusive_ptr<Object>& object) {
    std::lock_guard lock(mutex_);
    std::erase_if(objects_, [](const auto& entry) { return entry.second.expired(); });
    objects_.insert_or_assign(object.get(), Weak(object));
  }
  c10::intrusive_ptr<Object> Find(const void* address) {
    std::lock_guard lock(mutex_);
    const auto found = objects_.find(address);
    return found != objects_.end() ? found->second.lock() : c10::intrusive_ptr<Object>();
  }

 private:
  using Weak = c10::weak_intrusive_ptr<Object>;
  ForkMutex mutex_;
  std::unordered_map<const void*, Weak> objects_;
};

// (int, str) of (Any)
void ScriptedObject(jit::Stack& stack) {
  const IValue module = jit::pop(stack);
  TORCH_CHECK(module.isObject(), "tdump: no script module");
  const c10::intrusive_ptr<Object> object = module.toObject();
  Objects::Get().Add(object);
  jit::push(stack, static_cast<int64_t>(reinterpret_cast<intptr_t>(object.get())));
  const auto& name = object->type()->name();
  jit::push(stack, name ? name->qualifiedName() : std::string());
}

void DefineOperators() {
  const auto effects = c10::AliasAnalysisKind::CONSERVATIVE;
  jit::registerOperator(
      jit::Operator("tdump::scripted_begin(Any self, ...) -> ()", BeginOf, effects));
  jit::registerOperator(
      jit::Operator("tdump::scripted_end(Any self, Any result) -> ()", EndOf, effects));
  const jit::Operation give_back = [](jit::Stack&) {};
  jit::registerOperator(jit::Operator("tdump::scripted_value(Tensor(a) value) -> Tensor(a)",
                                      give_back, c10::AliasAnalysisKind::FROM_SCHEMA));
  jit::registerOperator(jit::Operator("tdump::scripted_object(Any module) -> (int, str)",
                                      jit::Operation(ScriptedObject), effects));
}

}  // namespace

void DefineScriptedOperators(const ScriptedHost& host) {
  static std::once_flag once;
  if (host.begin != nullptr) python_begin.store(host.begin, std::memory_order_release);
  std::call_once(once, DefineOperators);
}

void PrepareScripted(const void* address) noexcept {
  try {
    if (const c10::intrusive_ptr<Object> object = Objects::Get().Find(address))
      PrepareScriptedObject(object);
  } catch (...) {  // a mutex that fails
  }
}

void PrepareScriptedObject(const c10::intrusive_ptr<Object>& object) noexcept {
  Runtime* runtime = CurrentRuntime();
  if (runtime == nullptr) return;
  try {
    const Marked marked = GiveMarkedExecutor(object->type());
    if (marked == Marked::kRanBefore)
      runtime->sink->note(
          "TorchScript: a script module had been run before its first call as a module; what is "
          "inside is not captured. Call the module itself first");
    if (marked == Marked::kWaits)
      runtime->sink->note(
          "TorchScript: a script module waits for torch.jit.fork and may go on in another thread; "
          "what is inside is not captured");
  } catch (const std::exception& error) {
    runtime->sink->note("TorchScript: a script module cannot be followed (" + WhatOf(error) +
                        "); what is inside is not captured");
  } catch (...) {
    runtime->sink->note("TorchScript: a script module cannot be followed; not captured");
  }
}

}  // namespace tdump::collectors
