#include "collectors/torch/compiled_kernels.h"

#include <ATen/core/Tensor.h>
#include <dlfcn.h>

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collectors/torch/capture.h"
#include "collectors/torch/kernel_buffers.h"
#include "collectors/torch/kernel_print.h"
#include "collectors/torch/kernel_sources.h"
#include "collectors/torch/known_names.h"
#include "collectors/torch/module_calls.h"
#include "collectors/torch/plugin.h"
#include "collectors/torch/torch_state.h"
#include "core/kernels.h"

namespace tdump::collectors {
namespace {

// One call of the printer. Its texts are constants of the model.
struct Event {
  KernelReports* reports;
  const at::Tensor& tensor;
  const char* arg;
  std::string_view kernel;
  const void* site;
};

// A compiled model or graph in a run of it.
struct Model {
  KernelBuffers buffers;
  std::shared_ptr<const KernelSources> sources;
};

// The models of a run, by where they are mapped. A model may be unloaded between two runs, and
// another be mapped in its place.
class Models {
 public:
  Model* Of(const void* site) {
    Model*& model = sites_[site];
    if (model != nullptr) return model;
    Dl_info info{};
    ::dladdr(site, &info);
    std::unique_ptr<Model>& known = models_[info.dli_fbase];
    if (known == nullptr) {
      known = std::make_unique<Model>();
      known->sources = KernelSources::Of(info.dli_fname != nullptr ? info.dli_fname : "");
    }
    return model = known.get();
  }
  void Clear() {
    sites_.clear();
    models_.clear();
  }

 private:
  std::unordered_map<const void*, std::unique_ptr<Model>> models_;
  std::unordered_map<const void*, Model*> sites_;
};

// What may be recorded before the launch. Not kept alive: the printer may never come to say more.
struct Pending {
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, at::UndefinedTensorImpl>;
  const char* arg;
  Weak tensor;
};

// The launch under way. Its memory is kept for the next.
struct Launch {
  bool open = false;
  bool returned = false;
  KernelReports* crumbs = nullptr;  // null: it leaves none
  std::string kernel;
  OperatorId op = kNoOperator;
  Model* model = nullptr;  // null: its buffers are not followed
  const void* first_site = nullptr;
  size_t before = 0, after = 0;    // arguments seen
  std::vector<const char*> taken;  // arguments that this stage has
  std::vector<Pending> pending;
  Recorder::CallScope scope;
};

// A run of an AOTInductor model; the first stands for what is in none: graphs of torch.compile,
// which stay for good.
struct Run {
  Launch launch;
  Models models;
  uint64_t frame = 0;  // serial of the outermost call that it is for the clock
};

struct KernelThread {
  KnownNames known;
  std::vector<bool> told;  // by operator: the coverage knows that it is a kernel
  std::vector<std::unique_ptr<Run>> runs;
  size_t depth = 0;  // of open runs

  Run& top() {
    while (runs.size() <= depth) runs.push_back(std::make_unique<Run>());
    return *runs[depth];
  }
};

KernelThread& OfThread() {
  static thread_local KernelThread thread;
  return thread;
}

Runtime* Running() {
  Runtime* runtime = CurrentRuntime();
  return runtime == nullptr || runtime->gate->off() ? nullptr : runtime;
}

OperatorId KernelOperator(Runtime* runtime, KernelThread* thread, std::string_view kernel) {
  const ModuleFrame* inside = ModuleCalls::OfThread().top();
  const OperatorId owner = inside != nullptr ? inside->op : kNoOperator;
  OperatorId id = thread->known.Find(runtime->operators, owner, kernel);
  if (id != kNoOperator) return id;
  id = InternBelow(runtime->operators, OperatorKind::kKernel, owner, kernel);
  if (id != kNoOperator) thread->known.Add(owner, kernel, id);
  return id;
}

bool IsWanted(Runtime* runtime, OperatorId op) {
  if (op == kNoOperator) return false;
  const RuleId rule = runtime->plan->op(op, runtime->operators->Get(op), nullptr);
  return rule != kNoRule && runtime->plan->wants_calls(rule);
}

// The job goes on behind the launch, or an exception left it.
void Returned(Launch* launch) {
  if (launch->returned) return;
  launch->returned = true;
  launch->pending.clear();  // what was only written: there was nothing before
  launch->taken.clear();
  if (launch->crumbs != nullptr) launch->crumbs->Ended(launch->op);
}

void Close(Runtime* runtime, Launch* launch, bool threw) {
  if (!launch->open) return;
  launch->open = false;
  Returned(launch);
  if (launch->scope.call.begin != 0) runtime->recorder->End(&launch->scope, threw);
}

// Once a kernel is recorded it is one that the coverage expects.
void Expect(Runtime* runtime, KernelThread* thread, OperatorId op) {
  if (op >= thread->told.size()) thread->told.resize(op + 64);
  if (thread->told[op]) return;
  thread->told[op] = true;
  runtime->sink->expect(op);
}

// Whether buffers are followed: from the begin of a run of the model on, as steps are recorded.
bool Follows(const Runtime& runtime, const Event& event) {
  return event.reports->mode() != KernelMode::kNames && runtime.gate->armed();
}

void Open(Runtime* runtime, KernelThread* thread, Run* run, const Event& event) {
  Activate(runtime);
  Launch* launch = &run->launch;
  launch->open = true;
  launch->returned = false;
  launch->kernel = event.kernel;
  launch->first_site = event.site;
  launch->before = launch->after = 0;
  launch->taken.clear();
  launch->pending.clear();
  launch->scope.call.begin = 0;
  launch->model = Follows(*runtime, event) ? run->models.Of(event.site) : nullptr;
  if (launch->model != nullptr) launch->model->buffers.BeginLaunch();
  launch->op = KernelOperator(runtime, thread, event.kernel);
  const bool wanted = IsWanted(runtime, launch->op);
  launch->crumbs = wanted && event.reports->leaves_crumbs() ? event.reports : nullptr;
  if (wanted && launch->model != nullptr) {
    const ModuleFrame* inside = ModuleCalls::OfThread().top();
    const bool recompute = inside != nullptr && inside->recompute;
    const Phase phase = !recompute && InBackward() ? Phase::kBackward : Phase::kForward;
    if (runtime->recorder->Begin(launch->op, nullptr, phase, recompute, &launch->scope)) {
      Expect(runtime, thread, launch->op);
      launch->model->sources->AddTo(&launch->scope.text, event.kernel, event.arg);
    }
  }
  if (launch->crumbs != nullptr) launch->crumbs->Began(launch->op);
}

void Record(Runtime* runtime, Launch* launch, KernelReports* reports, Role role, const char* arg,
            const at::Tensor& tensor) {
  for (const char* taken : launch->taken) {
    if (std::strcmp(taken, arg) == 0) return;  // given twice: the same tensor
  }
  launch->taken.push_back(arg);
  if (reports->mode() == KernelMode::kPrint)
    PrintArgument(runtime->recorder, &launch->scope, reports, launch->kernel, {role, arg}, tensor);
  else
    Capture(*runtime->recorder, &launch->scope, {role, arg}, tensor);
}

const c10::Storage* StorageOf(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() ? &tensor.storage() : nullptr;
}

void RecordPending(Runtime* runtime, Launch* launch, KernelReports* reports) {
  for (const Pending& one : launch->pending) {
    if (auto impl = one.tensor.lock())
      Record(runtime, launch, reports, Role::kBefore, one.arg, at::Tensor(std::move(impl)));
  }
  launch->pending.clear();
}

// Whether the event is of a launch in another model than the one under way, which was left then.
bool IsElsewhere(Run* run, const Event& event) {
  const Launch& launch = run->launch;
  return launch.model != nullptr && run->models.Of(event.site) != launch.model;
}

void Before(Runtime* runtime, KernelThread* thread, const Event& event) {
  Run& run = thread->top();
  Launch& launch = run.launch;
  const bool again = launch.returned || launch.first_site == event.site;
  if (launch.open && (again || launch.kernel != event.kernel || IsElsewhere(&run, event)))
    Close(runtime, &launch, /*threw=*/!launch.returned);
  if (!launch.open) Open(runtime, thread, &run, event);
  ++launch.before;
  if (launch.model == nullptr) return;
  KernelBuffers& buffers = launch.model->buffers;
  const KernelBuffers::Verdict verdict =
      buffers.Before(event.site, event.kernel, event.arg, StorageOf(event.tensor),
                     launch.model->sources->MadeOf(event.arg));
  if (launch.scope.call.begin == 0) return;
  if (verdict == KernelBuffers::Verdict::kLater)
    return launch.pending.push_back({event.arg, Pending::Weak(event.tensor.getIntrusivePtr())});
  if (verdict == KernelBuffers::Verdict::kOutput) return;
  RecordPending(runtime, &launch, event.reports);
  Record(runtime, &launch, event.reports, Role::kBefore, event.arg, event.tensor);
}

void After(Runtime* runtime, KernelThread* thread, const Event& event) {
  Run& run = thread->top();
  Launch& launch = run.launch;
  if (launch.open && (launch.kernel != event.kernel || IsElsewhere(&run, event)))
    Close(runtime, &launch, /*threw=*/!launch.returned);
  if (!launch.open) Open(runtime, thread, &run, event);
  Returned(&launch);
  ++launch.after;
  if (launch.model != nullptr) launch.model->buffers.After(event.arg, StorageOf(event.tensor));
  if (launch.scope.call.begin != 0)
    Record(runtime, &launch, event.reports, Role::kAfter, event.arg, event.tensor);
  if (launch.after >= launch.before) Close(runtime, &launch, /*threw=*/false);
}

// 0: nothing that this collector knows.
int Take(const Event& event, std::string_view stage) noexcept try {
  Runtime* runtime = Running();
  if (runtime == nullptr || event.arg == nullptr || event.kernel.empty()) return 0;
  if (stage == "before_launch")
    Before(runtime, &OfThread(), event);
  else if (stage == "after_launch")
    After(runtime, &OfThread(), event);
  else
    return 0;
  return 1;
} catch (...) {  // out of memory: the launch is not recorded
  return 1;
}

void BeginRun() {
  KernelThread& thread = OfThread();
  Runtime* runtime = Running();
  ModuleCalls& calls = ModuleCalls::OfThread();
  ++thread.depth;
  thread.top().frame = 0;
  thread.top().launch.open = false;
  thread.top().models.Clear();
  if (runtime == nullptr || !calls.empty()) return;
  const ModuleIdentity identity{.told_as = "AOTInductor", .cls = "AOTInductor model"};
  const ModuleFrame* frame = calls.Push(runtime, identity, 0);
  if (frame != nullptr) thread.top().frame = frame->serial;
}

void EndRun(bool threw) {
  KernelThread& thread = OfThread();
  if (thread.depth == 0) return;
  Run& run = thread.top();
  --thread.depth;
  Runtime* runtime = CurrentRuntime();
  if (runtime == nullptr) return;
  Close(runtime, &run.launch, threw);
  ModuleCalls& calls = ModuleCalls::OfThread();
  ModuleFrame* frame = run.frame != 0 ? calls.WithSerial(run.frame) : nullptr;
  if (frame == nullptr) return;
  calls.UnwindTo(runtime, frame);
  calls.Pop(runtime, threw);
}

// "before_launch - kernel - argument", cut at the last and the first dash.
struct Message {
  std::string_view stage, kernel;
  const char* arg = nullptr;
};
Message ParseMessage(const char* text) {
  constexpr std::string_view kDash = " - ";
  const std::string_view all = text;
  const size_t first = all.find(kDash), last = all.rfind(kDash);
  if (first == std::string_view::npos || first == last) return {};
  const size_t kernel = first + kDash.size();
  return {all.substr(0, first), all.substr(kernel, last - kernel), text + last + kDash.size()};
}

}  // namespace
}  // namespace tdump::collectors

extern "C" {

int tdump_torch_kernel_argument(void* reports, const void* tensor, const char* arg,
                                const char* stage, const char* kernel, const void* site) {
  using namespace tdump::collectors;
  if (stage == nullptr || kernel == nullptr) return 0;
  if (tensor == nullptr) return 1;  // an argument that is not there: the printer would read it
  return Take({static_cast<tdump::KernelReports*>(reports), *static_cast<const at::Tensor*>(tensor),
               arg, kernel, site},
              stage);
}

int tdump_torch_kernel_message(void* reports, const void* tensor, const char* message,
                               const void* site) {
  using namespace tdump::collectors;
  if (message == nullptr) return 0;
  if (tensor == nullptr) return 1;
  const Message parts = ParseMessage(message);
  return Take({static_cast<tdump::KernelReports*>(reports), *static_cast<const at::Tensor*>(tensor),
               parts.arg, parts.kernel, site},
              parts.stage);
}

void tdump_torch_model_begin() {
  try {
    tdump::collectors::BeginRun();
  } catch (...) {  // out of memory
  }
}

void tdump_torch_model_end(int threw) {
  try {
    tdump::collectors::EndRun(threw != 0);
  } catch (...) {
  }
}

}  // extern "C"
