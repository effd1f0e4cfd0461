#include "collectors/torch/cxx_modules.h"

#include <c10/util/Type.h>
#include <torch/nn/module.h>

#include <mutex>
#include <unordered_set>

#include "collectors/torch/capture.h"
#include "collectors/torch/error_text.h"
#include "collectors/torch/gradients.h"
#include "collectors/torch/module_calls.h"

namespace tdump::collectors {
namespace {

using Module = torch::nn::Module;

constexpr size_t kMaxAliases = 64;
// Roots of C++ count apart from those of Python, which the clock numbers from 0.
constexpr uint64_t kFirstNumber = uint64_t{1} << 48;

// Paths of each module in the order of named_modules(), the root as ".".
struct NamedModule {
  std::shared_ptr<Module> module;
  std::vector<std::string> paths;
};

std::vector<NamedModule> NamedModules(const std::shared_ptr<Module>& top) {
  std::vector<NamedModule> named{{top, {"."}}};
  std::unordered_map<const Module*, size_t> position{{top.get(), 0}};
  for (const auto& item : top->named_modules("", /*include_self=*/false)) {
    const auto [it, added] = position.try_emplace(item.value().get(), named.size());
    if (added) named.push_back({item.value(), {}});
    std::vector<std::string>& paths = named[it->second].paths;
    if (paths.size() <= kMaxAliases) paths.push_back(item.key());
  }
  return named;
}

OperatorInfo InfoOf(const NamedModule& named, const std::string& prefix) {
  const Module& module = *named.module;
  OperatorInfo info;
  info.root = prefix;
  info.path = named.paths.front();
  info.aliases.assign(named.paths.begin() + 1, named.paths.end());
  info.cls = c10::demangle(typeid(module).name());
  info.leaf = module.children().empty();
  return info;
}

// LibTorch gives away what a module holds as copies of whole dictionaries. These are the
// dictionaries themselves; access is not checked where a template is instantiated explicitly.
template <class T>
using Dict = torch::OrderedDict<std::string, T>;
struct Parameters {
  friend Dict<at::Tensor> Module::*MemberOf(Parameters);
};
struct Buffers {
  friend Dict<at::Tensor> Module::*MemberOf(Buffers);
};
struct Children {
  friend Dict<std::shared_ptr<Module>> Module::*MemberOf(Children);
};
template <class Kind, auto kMember>
struct Reach {
  friend decltype(kMember) MemberOf(Kind) { return kMember; }
};
template struct Reach<Parameters, &Module::parameters_>;
template struct Reach<Buffers, &Module::buffers_>;
template struct Reach<Children, &Module::children_>;

template <class Kind>
const auto& Of(const Module& module) {
  return module.*MemberOf(Kind{});
}

// Visits the modules of a tree once each, in the order of named_modules().
template <class Visitor>
void ForEachModule(const Module& module, PointerSet* met, const Visitor& visit) {
  if (!met->Insert(&module)) return;
  visit(module);
  for (const auto& child : Of<Children>(module)) {
    if (child.value() != nullptr) ForEachModule(*child.value(), met, visit);
  }
}

// Parameters and buffers of the modules of a tree, each tensor once a pass.
class StateRecorder {
 public:
  StateRecorder(Runtime* runtime, CxxRoot* root)
      : recorder_(*runtime->recorder), root_(*root), scope_(root->state_scope) {
    root_.recorded.Clear();
    root_.watched.Clear();
  }

  void Record(const Module& module, OperatorId op) {
    if (!recorder_.BeginState(op, nullptr, &scope_)) return;
    if (Wants(recorder_, scope_, Role::kParam)) RecordAll(Of<Parameters>(module), Role::kParam);
    if (Wants(recorder_, scope_, Role::kState)) RecordAll(Of<Buffers>(module), Role::kState);
    if (!WantsGradient(recorder_, scope_, Role::kParamGrad)) return;
    for (const auto& item : Of<Parameters>(module)) {
      if (item.value().defined() && root_.watched.Insert(item.value().unsafeGetTensorImpl()))
        WatchParameterGradient(op, item.key(), item.value());
    }
  }

 private:
  void RecordAll(const Dict<at::Tensor>& tensors, Role role) {
    for (const auto& item : tensors) {
      const at::Tensor& tensor = item.value();
      if (tensor.defined() && root_.recorded.IsNew(recorder_, scope_, role, item.key(), tensor,
                                                   tensor.unsafeGetTensorImpl()))
        Capture(recorder_, &scope_, {role, item.key()}, tensor);
    }
  }

  Recorder& recorder_;
  CxxRoot& root_;
  Recorder::CallScope& scope_;
};

}  // namespace

constinit std::atomic<bool> CxxModules::watching_{false};

CxxModules& CxxModules::Get() {
  static auto* modules = new CxxModules;  // never destroyed: calls may come late
  return *modules;
}

CxxRoot* CxxModules::RootOf(const std::shared_ptr<Module>& top, const std::string& prefix) {
  for (const auto& root : roots_) {
    if (root->top.lock() == top) {
      root->prefix = prefix;
      return root.get();
    }
  }
  auto root = std::make_unique<CxxRoot>();
  root->number = kFirstNumber + roots_.size();
  root->prefix = prefix;
  root->top = top;
  return roots_.emplace_back(std::move(root)).get();
}

void CxxModules::Watch(Runtime* runtime, const std::shared_ptr<Module>& top,
                       const std::string& prefix) {
  if (top == nullptr) return;
  const std::vector<NamedModule> named = NamedModules(top);
  std::unique_lock lock(mutex_);
  std::erase_if(modules_, [](const auto& entry) { return entry.second.module.expired(); });
  CxxRoot* root = RootOf(top, prefix);
  for (const NamedModule& part : named) {
    const OperatorInfo info = InfoOf(part, prefix);
    CxxModule& entry = modules_[part.module.get()];
    const OperatorId before = entry.op;
    entry.module = part.module;
    entry.op = runtime->operators->Intern(info);
    entry.root = root;
    entry.is_root = part.module == top;
    entry.told_as = ToldAs(info, entry.is_root);
    // Watched before as another tree's part: what was recorded under that name belongs here too.
    if (before != kNoOperator && before != entry.op)
      runtime->operators->AddAlias(before, info.path);
  }
  root->expected = false;
  watching_ = true;
}

std::optional<CxxModule> CxxModules::Find(const Module* module) const {
  std::shared_lock lock(mutex_);
  const auto it = modules_.find(module);
  if (it == modules_.end() || it->second.op == kNoOperator || it->second.module.expired())
    return std::nullopt;
  return it->second;
}

OperatorId CxxModules::OperatorOf(const Module* module) const {
  std::shared_lock lock(mutex_);
  const auto it = modules_.find(module);
  return it == modules_.end() || it->second.module.expired() ? kNoOperator : it->second.op;
}

void CxxModules::NoteOwner(const Module& module, OperatorId op) {
  std::unique_lock lock(mutex_);
  for (const auto& item : Of<Parameters>(module)) {
    const at::Tensor& parameter = item.value();
    if (parameter.defined() && parameter.has_storage())
      parameters_[parameter.storage().data()] = op;
  }
}

OperatorId CxxModules::OwnerOfParameter(const void* data) const {
  std::shared_lock lock(mutex_);
  const auto it = data != nullptr ? parameters_.find(data) : parameters_.end();
  return it == parameters_.end() ? kNoOperator : it->second;
}

void CxxModules::ForEachParameter(
    const std::function<void(OperatorId, const std::string&, const at::Tensor&)>& visit) const {
  std::vector<std::shared_ptr<Module>> tops;
  {
    std::shared_lock lock(mutex_);
    for (const auto& root : roots_) {
      if (auto top = root->top.lock()) tops.push_back(std::move(top));
    }
  }
  std::unordered_set<const void*> seen;
  for (const std::shared_ptr<Module>& top : tops) {
    for (const NamedModule& named : NamedModules(top)) {
      const std::optional<CxxModule> entry = Find(named.module.get());
      if (!entry) continue;
      for (const auto& item : named.module->named_parameters(/*recurse=*/false)) {
        if (seen.insert(item.value().unsafeGetTensorImpl()).second)
          visit(entry->op, item.key(), item.value());
      }
    }
  }
}

void CxxModules::OnOutermostCall(Runtime* runtime, CxxRoot* root) noexcept try {
  if (runtime->gate->off()) return;
  const bool expect = !root->expected.exchange(true);
  const uint64_t pass = runtime->gate->pass.load(std::memory_order_acquire);
  const bool record = runtime->gate->armed() && root->state_pass.exchange(pass) != pass;
  if (!expect && !record) return;
  const std::shared_ptr<Module> top = root->top.lock();
  if (top == nullptr) return;
  std::lock_guard one_at_a_time(root->state_mutex);
  StateRecorder recorder(runtime, root);
  Plan& plan = *runtime->plan;
  root->modules.Clear();
  ForEachModule(*top, &root->modules, [&](const Module& module) {
    const OperatorId op = OperatorOf(&module);
    if (op == kNoOperator) return;
    const RuleId rule = plan.op(op, runtime->operators->Get(op), nullptr);
    if (expect && plan.expects_calls(rule)) runtime->sink->expect(op);
    if (!record) return;
    recorder.Record(module, op);
    NoteOwner(module, op);
  });
} catch (const std::exception& error) {
  runtime->sink->note("parameters of a C++ model could not be read: " + WhatOf(error));
} catch (...) {
  runtime->sink->note("parameters of a C++ model could not be read");
}

}  // namespace tdump::collectors
