#include "collectors/torch/cxx_scripts.h"

#include <ATen/core/class_type.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/api/module.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collectors/torch/error_text.h"
#include "collectors/torch/module_calls.h"
#include "collectors/torch/plugin.h"
#include "collectors/torch/scripted_calls.h"
#include "core/fork_mutex.h"
#include "core/index_text.h"

namespace tdump::collectors {
namespace {

using c10::ivalue::Object;

// Roots of C++ scripts count apart from others (cxx_modules.cc, exported_calls.cc).
constexpr uint64_t kFirstNumber = uint64_t{3} << 48;
constexpr size_t kMaxAliases = 64;

struct Named {
  c10::weak_intrusive_ptr<Object> object;
  OperatorId op = kNoOperator;
  std::string told_as, cls;
  bool is_root = false;
  uint64_t number = 0;
};

struct Part {
  c10::intrusive_ptr<Object> object;
  std::vector<std::string> paths;
  bool leaf = true;
};

// As the class was called in Python: "__torch__.pkg.___torch_mangle_3.Cls" was pkg.Cls.
std::string ClassOf(const Object& object) {
  const auto& name = object.type()->name();
  if (!name) return "";
  std::string cls;
  for (const std::string& atom : name->atoms()) {
    if (atom == "__torch__" || atom.starts_with("___torch_mangle_")) continue;
    if (!cls.empty()) cls += '.';
    cls += atom;
  }
  return cls;
}

// The modules of a tree in the order of named_modules(), each under all its paths. What was one
// module at several places in Python is one object for each; they have the same parameters.
class Tree {
 public:
  explicit Tree(const c10::intrusive_ptr<Object>& root) { Walk(root, ""); }
  const std::vector<Part>& parts() const { return parts_; }
  // By object, the part that it is.
  const std::unordered_map<const Object*, size_t>& positions() const { return positions_; }

 private:
  void Walk(const c10::intrusive_ptr<Object>& object, const std::string& path) {
    const auto [it, is_new] = positions_.try_emplace(object.get(), parts_.size());
    if (is_new) it->second = PositionOf(object);
    Part& part = parts_[it->second];
    if (part.paths.size() > kMaxAliases) return;
    part.paths.push_back(path.empty() ? "." : path);
    const size_t position = it->second;
    for (const auto& [name, child] : ChildrenOf(*object)) {
      parts_[position].leaf = false;
      Walk(child, path.empty() ? name : path + "." + name);
    }
  }

  size_t PositionOf(const c10::intrusive_ptr<Object>& object) {
    State state;
    AddState(*object, &state);
    size_t position = parts_.size();
    if (state.tells && state.is_whole)
      position = by_state_.try_emplace({state.names, state.numbers}, position).first->second;
    if (position == parts_.size()) parts_.push_back({object, {}, true});
    return position;
  }

  static std::vector<std::pair<std::string, c10::intrusive_ptr<Object>>> ChildrenOf(
      const Object& object) {
    std::vector<std::pair<std::string, c10::intrusive_ptr<Object>>> children;
    const auto type = object.type();
    for (size_t i = 0; i < type->numAttributes(); ++i) {
      const auto slot = type->getAttribute(i)->cast<c10::ClassType>();
      if (slot != nullptr && slot->is_module() && object.getSlot(i).isObject())
        children.emplace_back(type->getAttributeName(i), object.getSlot(i).toObject());
    }
    return children;
  }

  // Those of one class, and inside as well, whose tensors are at the same places were one module.
  struct State {
    std::vector<std::string> names;
    std::vector<int64_t> numbers;
    bool tells = false, is_whole = true;
  };

  static void AddState(const Object& object, State* state) {
    state->names.push_back(ClassOf(object));
    for (const at::IValue& slot : object.slots()) {
      if (slot.isTensor() && slot.toTensor().defined()) AddPlace(slot.toTensor(), state);
    }
    for (const auto& [name, child] : ChildrenOf(object)) {
      state->names.push_back(name);
      AddState(*child, state);
    }
    state->names.emplace_back();
  }

  static void AddPlace(const at::Tensor& tensor, State* state) {
    if (tensor.layout() != at::kStrided || !tensor.has_storage()) {
      state->is_whole = false;
      return;
    }
    const auto* base = static_cast<const char*>(tensor.storage().data());
    state->tells |= base != nullptr;
    const int64_t bytes = tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize());
    std::vector<int64_t>& numbers = state->numbers;
    numbers.insert(numbers.end(), {reinterpret_cast<intptr_t>(base) + bytes, tensor.dim()});
    numbers.insert(numbers.end(), tensor.sizes().begin(), tensor.sizes().end());
    numbers.insert(numbers.end(), tensor.strides().begin(), tensor.strides().end());
  }

  std::vector<Part> parts_;
  std::unordered_map<const Object*, size_t> positions_;
  std::map<std::pair<std::vector<std::string>, std::vector<int64_t>>, size_t> by_state_;
};

class Scripts {
 public:
  static Scripts& Get() {
    static auto* one = new Scripts;  // never destroyed: calls may come late
    return *one;
  }

  // Names the tree below `root`, once. A part that has a name keeps it: calls may refer to that.
  void Name(Runtime* runtime, const c10::intrusive_ptr<Object>& root) {
    std::lock_guard lock(mutex_);
    if (FindLocked(root.get()) != nullptr) return;
    std::erase_if(named_, [](const auto& entry) { return entry.second.object.expired(); });
    const std::string cls = ClassOf(*root);
    const uint64_t number = roots_++;
    char digits[IndexText::kMaxBytes];
    std::string prefix;
    if (number > 0)
      prefix = cls.substr(cls.rfind('.') + 1)
                   .append("#")
                   .append(digits, IndexText::Copy(number, digits));
    const Tree tree(root);
    for (const auto& [object, position] : tree.positions()) {
      const Part& part = tree.parts()[position];
      OperatorInfo info;
      info.root = prefix;
      info.path = part.paths.front();
      info.aliases.assign(part.paths.begin() + 1, part.paths.end());
      info.cls = ClassOf(*part.object);
      info.leaf = part.leaf;
      const bool is_root = object == root.get();
      Named named{Weak(object),
                  runtime->operators->Intern(info),
                  ToldAs(info, is_root),
                  info.cls,
                  is_root,
                  kFirstNumber + number};
      Expect(runtime, named.op);
      named_.try_emplace(object, std::move(named));
    }
  }

  // Null: not named here, or gone. Valid until the process ends, or the object does.
  const Named* Find(const Object* object) {
    std::lock_guard lock(mutex_);
    return FindLocked(object);
  }

 private:
  static c10::weak_intrusive_ptr<Object> Weak(const Object* object) {
    return c10::weak_intrusive_ptr<Object>(
        c10::intrusive_ptr<Object>::unsafe_reclaim_from_nonowning(const_cast<Object*>(object)));
  }

  static void Expect(Runtime* runtime, OperatorId op) {
    if (op == kNoOperator) return;
    const RuleId rule = runtime->plan->op(op, runtime->operators->Get(op), nullptr);
    if (runtime->plan->expects_calls(rule)) runtime->sink->expect(op);
  }

  const Named* FindLocked(const Object* object) const {
    const auto found = named_.find(object);
    const bool known = found != named_.end() && !found->second.object.expired();
    return known ? &found->second : nullptr;
  }

  ForkMutex mutex_;
  std::unordered_map<const Object*, Named> named_;
  uint64_t roots_ = 0;
};

}  // namespace

uint64_t BeginCxxScript(const void* address) {
  const auto* object = static_cast<const Object*>(address);
  const Named* named = Scripts::Get().Find(object);
  Runtime* runtime = CurrentRuntime();
  if (named == nullptr || named->op == kNoOperator || runtime == nullptr) return 0;
  ModuleCalls& calls = ModuleCalls::OfThread();
  ModuleFrame* frame = calls.Push(runtime,
                                  {.module = object,
                                   .op = named->op,
                                   .is_root = named->is_root,
                                   .told_as = named->told_as,
                                   .cls = named->cls,
                                   .root_number = named->number},
                                  /*depth=*/0);
  if (frame == nullptr) return 0;
  frame->stack = __builtin_frame_address(0);
  return frame->serial;
}

}  // namespace tdump::collectors

extern "C" void tdump_torch_script_begin(const void* address) {
  using namespace tdump::collectors;
  tdump::Runtime* runtime = CurrentRuntime();
  if (runtime == nullptr || runtime->gate->off() || !runtime->collect_modules) return;
  ModuleCalls::OfThread().DropUnwound(runtime, __builtin_frame_address(0));
  try {
    const auto& method = *static_cast<const torch::jit::Method*>(address);
    if (method.name() != "forward") return;
    if (!runtime->collect_compiled) {
      static std::atomic<bool> said = false;  // a service has many calls
      if (said.exchange(true, std::memory_order_relaxed)) return;
      Activate(runtime);
      return runtime->sink->note(
          "TorchScript: modules inside a script module run without hooks; not captured "
          "(compile.taps: on captures them, as an experiment)");
    }
    DefineScriptedOperators({});
    Scripts::Get().Name(runtime, method.raw_owner());
    PrepareScriptedObject(method.raw_owner());
  } catch (const std::exception& error) {
    runtime->sink->note("TorchScript: " + WhatOf(error) + "; not captured");
  } catch (...) {
    runtime->sink->note("TorchScript: out of memory; not captured");
  }
}
