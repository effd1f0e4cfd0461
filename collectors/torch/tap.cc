#include "collectors/torch/tap.h"

#include <ATen/core/TensorBase.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectors/torch/capture.h"
#include "collectors/torch/gradients.h"
#include "collectors/torch/module_calls.h"
#include "collectors/torch/torch_state.h"

namespace tdump::collectors {
namespace {

// Taps that this thread has met, an open hash table by owner and name.
class KnownTaps {
 public:
  OperatorId Find(const OperatorTable& operators, OperatorId owner, std::string_view name) const {
    if (taps_.empty()) return kNoOperator;
    for (size_t at = Hash(owner, name);; ++at) {
      const Entry& entry = taps_[at & (taps_.size() - 1)];
      if (entry.id == kNoOperator) return kNoOperator;
      if (entry.owner == owner && operators.Get(entry.id).op == name) return entry.id;
    }
  }
  void Add(const OperatorTable& operators, OperatorId owner, OperatorId id) {
    if (2 * used_ >= taps_.size()) {
      std::vector<Entry> before(std::max<size_t>(64, 2 * taps_.size()));
      before.swap(taps_);
      used_ = 0;
      for (const Entry& old : before) {
        if (old.id != kNoOperator) Put(operators, old);
      }
    }
    Put(operators, {owner, id});
  }

 private:
  struct Entry {
    OperatorId owner = kNoOperator;
    OperatorId id = kNoOperator;  // kNoOperator: free
  };
  static size_t Hash(OperatorId owner, std::string_view name) {
    return std::hash<std::string_view>()(name) ^ (owner * 0x9e3779b97f4a7c15u >> 16);
  }
  void Put(const OperatorTable& operators, const Entry& entry) {
    size_t at = Hash(entry.owner, operators.Get(entry.id).op);
    while (taps_[at & (taps_.size() - 1)].id != kNoOperator) ++at;
    taps_[at & (taps_.size() - 1)] = entry;
    ++used_;
  }

  std::vector<Entry> taps_;  // a power of two, at most half of them in use
  size_t used_ = 0;
};

struct TapThread {
  KnownTaps known;
  const OperatorTable* table = nullptr;  // that `known` is about
  std::vector<std::unique_ptr<Recorder::CallScope>> scopes;
  size_t depth = 0;
};

TapThread& OfThread() {
  static thread_local TapThread thread;
  return thread;
}

OperatorId InternTap(Runtime* runtime, OperatorId owner, std::string_view name) {
  OperatorInfo info;
  info.kind = OperatorKind::kTap;
  info.op = name;
  info.leaf = true;
  if (owner != kNoOperator) {
    const OperatorInfo& module = runtime->operators->Get(owner);
    info.root = module.root;
    info.path = module.path;
    info.cls = module.cls;
  }
  return runtime->operators->Intern(info);
}

}  // namespace

OperatorId TapOperator(Runtime* runtime, const ModuleFrame* inside, std::string_view name) {
  if (name.empty()) name = "tap";
  const OperatorId owner = inside != nullptr ? inside->op : kNoOperator;
  TapThread& thread = OfThread();
  if (thread.table != runtime->operators) {
    thread.known = {};
    thread.table = runtime->operators;
  }
  OperatorId id = thread.known.Find(*runtime->operators, owner, name);
  if (id != kNoOperator) return id;
  id = InternTap(runtime, owner, name);
  if (id != kNoOperator) thread.known.Add(*runtime->operators, owner, id);
  return id;
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
  TapCall call;
  Recorder::CallScope* scope = call.scope();
  if (!runtime->recorder->Begin(TapOperator(runtime, inside, name != nullptr ? name : ""), nullptr,
                                phase, recompute, scope))
    return;
  Capture(*runtime->recorder, scope, {Role::kOutput, ""}, tensor);
  if (WantsGradient(*runtime->recorder, *scope, Role::kGradOutput))
    WatchGradient(*scope, Role::kGradOutput, "", /*late=*/false, tensor);
  for (const char* tag : tags) AddText(scope, "tag", tag);
  runtime->recorder->End(scope, /*threw=*/false);
} catch (...) {  // out of memory
}

}  // namespace tdump::collectors
