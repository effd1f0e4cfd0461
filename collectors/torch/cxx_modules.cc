#include "collectors/torch/cxx_modules.h"

#include <c10/util/Type.h>
#include <torch/nn/module.h>

#include <mutex>
#include <unordered_set>

#include "collectors/torch/capture.h"
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

// Parameters and buffers of a module itself.
class StateRecorder {
 public:
  explicit StateRecorder(Runtime* runtime) : recorder_(*runtime->recorder) {}

  void Record(const Module& module, OperatorId op) {
    if (!recorder_.BeginState(op, nullptr, &scope_)) return;
    if (Wants(recorder_, scope_, Role::kParam))
      RecordAll(module.named_parameters(/*recurse=*/false), Role::kParam);
    if (Wants(recorder_, scope_, Role::kState))
      RecordAll(module.named_buffers(/*recurse=*/false), Role::kState);
    if (!WantsGradient(recorder_, scope_, Role::kParamGrad)) return;
    for (const auto& item : module.named_parameters(/*recurse=*/false)) {
      if (watched_.insert(item.value().unsafeGetTensorImpl()).second)
        WatchParameterGradient(op, item.key(), item.value());
    }
  }

 private:
  void RecordAll(const torch::OrderedDict<std::string, at::Tensor>& tensors, Role role) {
    for (const auto& item : tensors) {
      if (seen_.insert(item.value().unsafeGetTensorImpl()).second)
        Capture(recorder_, &scope_, {role, item.key()}, item.value());
    }
  }

  Recorder& recorder_;
  Recorder::CallScope scope_;
  std::unordered_set<const void*> seen_, watched_;
};

}  // namespace

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
  StateRecorder recorder(runtime);
  Plan& plan = *runtime->plan;
  for (const NamedModule& named : NamedModules(top)) {
    const std::optional<CxxModule> entry = Find(named.module.get());
    if (!entry) continue;
    const RuleId rule = plan.op(entry->op, runtime->operators->Get(entry->op), nullptr);
    if (expect && plan.expects_calls(rule)) runtime->sink->expect(entry->op);
    if (!record) continue;
    recorder.Record(*named.module, entry->op);
    std::unique_lock lock(mutex_);
    for (const at::Tensor& parameter : named.module->parameters(/*recurse=*/false)) {
      if (parameter.defined() && parameter.has_storage())
        parameters_[parameter.storage().data()] = entry->op;
    }
  }
} catch (const std::exception& error) {
  runtime->sink->note(std::string("parameters of a C++ model could not be read: ") + error.what());
} catch (...) {
  runtime->sink->note("parameters of a C++ model could not be read");
}

}  // namespace tdump::collectors
