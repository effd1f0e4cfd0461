#include "collectors/torch/traced_calls.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <torch/library.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "collectors/torch/capture.h"
#include "collectors/torch/gradients.h"
#include "collectors/torch/module_calls.h"
#include "collectors/torch/plugin.h"
#include "collectors/torch/tap.h"
#include "collectors/torch/torch_state.h"
#include "core/fork_mutex.h"

namespace tdump::collectors {
namespace {

using Ticket = std::optional<at::Tensor>;

TracedHost python;

// ---- sites ----

class Sites {
 public:
  static Sites& Get() {
    static auto* one = new Sites;  // never destroyed: graphs outlive static destructors
    return *one;
  }
  int64_t Add(TracedSite site) {
    std::lock_guard lock(mutex_);
    sites_.push_back(std::make_unique<const TracedSite>(std::move(site)));
    return static_cast<int64_t>(sites_.size()) - 1;
  }
  // Null for a number that comes from code of another process.
  const TracedSite* Find(int64_t number) const {
    std::lock_guard lock(mutex_);
    const bool known = number >= 0 && static_cast<size_t>(number) < sites_.size();
    return known ? sites_[number].get() : nullptr;
  }

 private:
  mutable ForkMutex mutex_;
  std::vector<std::unique_ptr<const TracedSite>> sites_;
};

// ---- runs of graphs, whose backward may come ----

class Runs {
 public:
  static Runs& Get() {
    static auto* one = new Runs;
    return *one;
  }
  // Whether or not something is recorded: a step may begin within the run.
  int64_t Begin() { return last_.fetch_add(1, std::memory_order_relaxed) + 1; }
  // Runs of earlier passes are forgotten: their gradients come too late.
  void Put(int64_t run, int64_t slot, const Call& call) {
    std::lock_guard lock(mutex_);
    if (pass_ != kNone && call.pass < pass_) return;
    if (call.pass != pass_) runs_.clear();
    pass_ = call.pass;
    if (runs_.size() == kMost && !runs_.contains(run)) runs_.erase(runs_.begin());
    runs_[run][slot].call = call;
  }
  // The call and how many gradients of this value of the site came before.
  std::optional<std::pair<Call, uint64_t>> Take(int64_t run, int64_t slot, int64_t site,
                                                int64_t value) {
    std::lock_guard lock(mutex_);
    const auto found = runs_.find(run);
    if (found == runs_.end()) return std::nullopt;
    const auto at = found->second.find(slot);
    if (at == found->second.end()) return std::nullopt;
    return std::pair{at->second.call, at->second.came[{site, value}]++};
  }

 private:
  struct Slot {
    Call call;
    std::map<std::pair<int64_t, int64_t>, uint64_t> came;  // by site and value
  };
  static constexpr size_t kMost = 65'536;  // the oldest go: no backward came for so many
  ForkMutex mutex_;
  std::map<int64_t, std::map<int64_t, Slot>> runs_;
  static constexpr uint64_t kNone = ~uint64_t{0};
  uint64_t pass_ = kNone;
  std::atomic<int64_t> last_{0};
};

Role GradientOf(Role role) { return role == Role::kInput ? Role::kGradInput : Role::kGradOutput; }

int64_t NumberOf(const Ticket& ticket) {
  const bool readable = ticket && ticket->defined() && ticket->device().is_cpu() &&
                        ticket->scalar_type() == at::kLong && ticket->numel() == 1;
  return readable ? *ticket->const_data_ptr<int64_t>() : 0;
}

// ---- calls ----

// Calls of this thread whose begin was handed over, and not yet their end.
struct OpenTraced {
  int64_t slot = 0;
  uint64_t pass = 0;
  std::unique_ptr<Recorder::CallScope> scope;
};

std::vector<OpenTraced>& OpenOfThread() {
  static thread_local std::vector<OpenTraced> open;
  return open;
}

// The call of this slot, taken from those that are open. What lies above it was left by an error.
std::unique_ptr<Recorder::CallScope> TakeOpen(Runtime* runtime, int64_t slot, uint64_t pass) {
  std::vector<OpenTraced>& open = OpenOfThread();
  while (!open.empty()) {
    OpenTraced last = std::move(open.back());
    open.pop_back();
    if (last.pass == pass && last.slot == slot) return std::move(last.scope);
    runtime->recorder->End(last.scope.get(), /*threw=*/true);
  }
  return nullptr;
}

// Serial numbers of the calls of this thread that traced_root began, 0 for one that is not
// followed.
std::vector<uint64_t>& OpenRoots() {
  static thread_local std::vector<uint64_t> open;
  return open;
}

std::unique_ptr<Recorder::CallScope> BeginTraced(Runtime* runtime, const TracedSite& site) {
  const ModuleFrame* inside = ModuleCalls::OfThread().top();
  if (site.in_root) {
    const uint64_t root = OpenRoots().empty() ? 0 : OpenRoots().back();
    if (root == 0 || inside == nullptr || inside->serial != root) return nullptr;
  }
  OperatorId op = inside != nullptr ? inside->op : kNoOperator;
  const void* module = nullptr;
  if (site.path) {
    if (inside == nullptr || inside->silent) {
      runtime->sink->note(
          "torch.compile: compiled code ran outside of the module call it was made for; not "
          "captured");
      return nullptr;
    }
    op = python.find(inside->module, *site.path, &module);
    if (op == kNoOperator) return nullptr;
  }
  if (site.tap) op = TapOperator(runtime, op, *site.tap);
  auto scope = std::make_unique<Recorder::CallScope>();
  if (!runtime->recorder->Begin(op, site.tap ? nullptr : module, Phase::kForward, InBackward(),
                                scope.get()))
    return nullptr;
  scope->call.compiled = true;
  for (const std::string& tag : site.tags) scope->text.AddText("tag", tag);
  return scope;
}

void Keep(Runtime* runtime, Recorder::CallScope* scope, const TracedSite& site,
          at::TensorList values) {
  for (size_t i = 0; i < values.size() && i < site.values.size(); ++i) {
    const TracedSite::Value& value = site.values[i];
    Capture(*runtime->recorder, scope, {value.role, value.arg, value.late}, values[i]);
  }
}

// Of a graph that runs as it is, operator by operator. A checkpoint that computes its part anew
// gives values whose gradients are those of the first time.
bool RunsAsItIs() { return at::GradMode::is_enabled() && !InBackward(); }

void Watch(Runtime* runtime, const Recorder::CallScope& scope, const TracedSite& site,
           at::TensorList values) {
  for (size_t i = 0; i < values.size() && i < site.values.size(); ++i) {
    const TracedSite::Value& value = site.values[i];
    const Role role = GradientOf(value.role);
    if (WantsGradient(*runtime->recorder, scope, role))
      WatchGradient(scope, role, value.arg, value.late, values[i]);
  }
}

void HandOver(Runtime* runtime, at::TensorList values, int64_t run, const TracedSite& site,
              int64_t slot) {
  using Part = TracedSite::Part;
  const uint64_t pass = runtime->gate->pass.load(std::memory_order_acquire);
  std::unique_ptr<Recorder::CallScope> scope;
  if (site.part == Part::kEnd) scope = TakeOpen(runtime, slot, pass);
  if (scope == nullptr) scope = BeginTraced(runtime, site);
  if (scope == nullptr) return;
  if (site.keeps) Keep(runtime, scope.get(), site, values);
  if (site.gradients && RunsAsItIs()) {
    Watch(runtime, *scope, site, values);
  } else if (site.gradients && run != 0) {
    ExpectGradient(scope->call);
    Runs::Get().Put(run, slot, scope->call);
  }
  if (site.part == Part::kBegin)
    OpenOfThread().push_back({slot, pass, std::move(scope)});
  else
    runtime->recorder->End(scope.get(), /*threw=*/false);
}

void TracedCall(at::TensorList values, const Ticket& ticket, int64_t number, int64_t slot) {
  Runtime* runtime = CurrentRuntime();
  if (runtime == nullptr || !runtime->gate->armed()) return;
  try {
    const at::DisableRecordFunctionGuard unseen;
    const TracedSite* site = Sites::Get().Find(number);
    if (site != nullptr) HandOver(runtime, values, NumberOf(ticket), *site, slot);
  } catch (...) {  // out of memory: nothing is recorded
  }
}

at::Tensor TracedTicket(int64_t) {  // an operator without arguments fails in cpp_wrapper
  const at::DisableRecordFunctionGuard unseen;
  at::Tensor ticket = at::empty({}, at::TensorOptions(at::kLong).device(at::kCPU));
  *ticket.mutable_data_ptr<int64_t>() = Runs::Get().Begin();
  return ticket;
}

void TracedGrad(const at::Tensor& gradient, const Ticket& ticket, int64_t number, int64_t slot,
                int64_t value) {
  Runtime* runtime = CurrentRuntime();
  if (runtime == nullptr || !runtime->gate->armed()) return;
  try {
    const TracedSite* site = Sites::Get().Find(number);
    if (site == nullptr || static_cast<size_t>(value) >= site->values.size()) return;
    const auto forward = Runs::Get().Take(NumberOf(ticket), slot, number, value);
    if (!forward) return;
    const TracedSite::Value& of = site->values[value];
    RecordGradient(forward->first, {GradientOf(of.role), of.arg, of.late}, forward->second,
                   gradient);
  } catch (...) {
  }
}

void TracedRoot(at::TensorList witness, int64_t site, bool begins, bool grad) {
  const Runtime* runtime = CurrentRuntime();
  if (runtime == nullptr || runtime->gate->off()) return;
  const at::AutoGradMode mode(grad);  // a step of training has them
  std::vector<uint64_t>& open = OpenRoots();
  try {
    if (begins) {
      open.push_back(0);
      open.back() = python.begin_root({witness.data(), witness.size()}, site);
    } else if (!open.empty()) {
      if (open.back() != 0) python.end_root(open.back());
      open.pop_back();
    }
  } catch (...) {  // out of memory
  }
}

// ---- autograd ----

template <class Signature>
c10::TypedOperatorHandle<Signature> Operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

// A tensor of a compiler that traces: what is done with it lands in a graph.
bool IsTraced(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->is_python_dispatch() ||
         tensor.key_set().has(c10::DispatchKey::Functionalize);
}

void HookValue(const at::Tensor& value, const at::Tensor& ticket, int64_t site, int64_t slot,
               int64_t number) {
  value.register_hook([=](const at::Tensor& gradient) {
    if (!gradient.defined()) return;
    static const auto grad = Operator<decltype(TracedGrad)>("tdump::traced_grad");
    grad.call(gradient, ticket, site, slot, number);
  });
}

void TracedCallAutograd(at::TensorList values, const Ticket& ticket, int64_t number, int64_t slot) {
  for (size_t i = 0; ticket && i < values.size(); ++i) {
    if (values[i].requires_grad() && IsTraced(values[i]))
      HookValue(values[i], *ticket, number, slot, static_cast<int64_t>(i));
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  static const auto call = Operator<decltype(TracedCall)>("tdump::traced_call");
  call.call(values, ticket, number, slot);
}

}  // namespace

void DefineTracedOperators(const TracedHost& host) {
  static torch::Library* library = nullptr;
  if (library != nullptr) return;
  python = host;
  auto made = std::make_unique<torch::Library>(torch::Library::DEF, "tdump", std::nullopt, __FILE__,
                                               __LINE__);
  // Any layout of the values will do: none is copied for the sake of its strides.
  const std::vector<at::Tag> tags = {at::Tag::flexible_layout};
  made->def("traced_ticket(int graph) -> Tensor", tags);
  made->def("traced_root(Tensor[] witness, int site, bool begins, bool grad) -> ()", tags);
  made->def("traced_call(Tensor[] values, Tensor? ticket, int site, int slot) -> ()", tags);
  made->def("traced_grad(Tensor gradient, Tensor? ticket, int site, int slot, int value) -> ()",
            tags);
  const auto all = c10::DispatchKey::CompositeExplicitAutograd;
  made->impl("traced_ticket", torch::dispatch(all, TORCH_FN(TracedTicket)));
  made->impl("traced_root", torch::dispatch(all, TORCH_FN(TracedRoot)));
  made->impl("traced_call", torch::dispatch(all, TORCH_FN(TracedCall)));
  made->impl("traced_grad", torch::dispatch(all, TORCH_FN(TracedGrad)));
  made->impl("traced_call",
             torch::dispatch(c10::DispatchKey::Autograd, TORCH_FN(TracedCallAutograd)));
  library = made.release();  // for as long as the process lives
}

int64_t AddTracedSite(TracedSite site) { return Sites::Get().Add(std::move(site)); }

}  // namespace tdump::collectors
