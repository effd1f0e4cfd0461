#include "launch/runtime/session.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "filters/settings.h"
#include "filters/topology.h"
#include "launch/config/effective_config.h"
#include "launch/config/first_on_node.h"
#include "launch/runtime/launcher.h"
#include "launch/runtime/terminal.h"

namespace tdump::launch {
namespace {

std::atomic<Session*> current{nullptr};

// memory.at_limit: block, for room in the staging of a device.
constexpr int64_t kLongestStagingWaitNs = 10'000'000'000;

bool DiffersByRank(const filters::Config& config) {
  const auto differs = [](const std::vector<filters::Rule>& rules) {
    return std::any_of(rules.begin(), rules.end(),
                       [](const filters::Rule& rule) { return !rule.ranks.is_all(); });
  };
  return std::any_of(config.capture.begin(), config.capture.end(),
                     [&](const filters::FilterSet& set) { return differs(set.rules); }) ||
         std::any_of(config.filters.begin(), config.filters.end(),
                     [&](const auto& list) { return differs(list.second); });
}

// Patterns of `steps.boundary` are the same kind of regex as those of the rules.
Result<std::function<bool(std::string_view)>> CompilePattern(const std::string& pattern) {
  TDUMP_ASSIGN_OR_RETURN(filters::Regex compiled, filters::Regex::Compile(pattern));
  auto regex = std::make_shared<const filters::Regex>(std::move(compiled));
  return std::function<bool(std::string_view)>([regex](std::string_view name) {
    return regex->Search(name) == filters::Regex::Match::kYes;
  });
}

LogLevel LevelOf(const std::string& log) {
  return log == "debug"     ? LogLevel::kDebug
         : log == "warning" ? LogLevel::kWarning
         : log == "error"   ? LogLevel::kError
                            : LogLevel::kInfo;
}

Result<std::unique_ptr<filters::CompiledPlan>> CompileFor(
    const filters::Config& config, int rank, int world,
    std::function<void(const std::string&)> note) {
  return filters::CompiledPlan::Compile(config,
                                        {.rank = rank, .world = world, .note = std::move(note)});
}

void TellWrongConfig(const Status& status) {
  if (SpeaksForTheJob())
    TellUser(fmt::format("off, the configuration is wrong:\n{}", status.message()),
             LogLevel::kError);
}

std::string JoinRoots(const std::map<std::string, std::string>& roots) {
  std::string text;
  for (const auto& [cls, prefix] : roots) text += cls + "=" + prefix + "\n";
  return text;
}

}  // namespace

Session* Session::Current() noexcept { return current.load(std::memory_order_acquire); }

Session* Session::Start() noexcept {
  static std::once_flag once;
  std::call_once(once, [] {
    try {
      current.store(Make().release(), std::memory_order_release);
      if (Current() == nullptr) return;
      ::pthread_atfork(nullptr, nullptr, &Session::InForkedChild);
      // Not std::atexit, which does not tell the status.
      ::on_exit(
          [](int status, void*) {
            if (Session* session = Current()) session->Close(status & 0xff);
          },
          nullptr);
    } catch (const std::exception& error) {
      TellUser(fmt::format("off, starting failed: {}", error.what()));
    }
  });
  return Current();
}

std::unique_ptr<Session> Session::Make() {
  if (!WantedInThisProcess()) return nullptr;
  auto settings = EffectiveConfigOfProcess();
  if (!settings.ok()) {
    TellWrongConfig(settings.status());
    return nullptr;
  }
  SetLogLevel(LevelOf(settings->config.log));
  auto rule = coordinator::ParseStepRule(settings->config.boundary, CompilePattern);
  const Identity guess = IdentityOfLauncher();
  auto plan = CompileFor(settings->config, guess.rank, guess.world, [](const std::string& text) {
    if (Session* session = Current()) session->sink_.note(text);
  });
  if (!rule.ok() || !plan.ok()) {
    TellWrongConfig(rule.ok() ? plan.status() : rule.status());
    return nullptr;
  }
  std::unique_ptr<Session> session(
      new Session(std::move(settings).value(), std::move(plan).value(), std::move(rule).value()));
  session->planned_rank_ = guess.rank;
  return session;
}

Session::Session(EffectiveConfig settings, std::unique_ptr<filters::CompiledPlan> plan,
                 coordinator::StepRule rule)
    : settings_(std::move(settings)),
      config_(settings_.config),
      plan_(plan.release()),
      clock_(&gate_, this,
             {.rule = std::move(rule),
              .select = config_.steps,
              .micro = config_.micro,
              .first = config_.first_step,
              .skip = config_.skip_steps,
              .report = [this](const std::string& text) { Report(text); }}),
      recorder_(&gate_, &operators_, &plan_, &sink_, &clock_),
      optimizers_(&clock_),
      kernels_(config_, &operators_),
      root_prefixes_(JoinRoots(config_.roots)) {
  runtime_.recorder = &recorder_;
  runtime_.gate = &gate_;
  runtime_.operators = &operators_;
  runtime_.plan = &plan_;
  runtime_.sink = &sink_;
  runtime_.clock = &clock_;
  runtime_.collect_modules = config_.modules != filters::Tri::kOff;
  runtime_.collect_aten = config_.aten;
  runtime_.collect_collectives = config_.collectives;
  runtime_.collect_taps = config_.taps != filters::Tri::kOff;
  runtime_.collect_compiled = config_.compiled == filters::Tri::kOn;
  runtime_.signature = config_.signature;
  runtime_.staging_bytes = config_.device_bytes;
  runtime_.staging_wait_ns = config_.thread && config_.full_arena == filters::FullArena::kBlock
                                 ? kLongestStagingWaitNs
                                 : 0;
  runtime_.staging_share = static_cast<double>(config_.max_block_percent) / 100;
  runtime_.staging_stats = config_.full_arena != filters::FullArena::kDrop;
  runtime_.tell_backward = config_.boundary == "backward";
  runtime_.tell_operators = config_.boundary.starts_with("op:");
  runtime_.tell_parts = config_.boundary.starts_with("forward:");
  runtime_.root_prefixes = root_prefixes_.c_str();
}

// One line, of one rank of the job: that of rank 0 while nobody knows better.
void Session::Report(const std::string& text) noexcept {
  const bool speaks = active_ != nullptr ? active_->identity.rank == 0 : SpeaksForTheJob();
  if (speaks) TellUser(text);
}

void Session::AdoptPlan(const Identity& identity) {
  if (identity.rank != planned_rank_ && DiffersByRank(config_)) {
    auto plan = CompileFor(config_, identity.rank, identity.world,
                           [this](const std::string& text) { sink_.note(text); });
    if (plan.ok()) plan_.Replace(std::move(plan).value().release());
  }
  if (runtime_.predicate != nullptr) {
    predicates_ = std::make_unique<RuntimePredicates>(runtime_.predicate);
    plan_.get()->SetPredicateHost(predicates_.get());
  }
}

coordinator::Activation Session::Activate(const tdump::Boundary& boundary,
                                          coordinator::ClockSession* session) {
  std::lock_guard lock(mutex_);
  if (closed_) return coordinator::Activation::kNever;
  const RankDecision decision = DecideRank(boundary, forked_);
  if (!decision.active)
    return decision.may_join ? coordinator::Activation::kLater : coordinator::Activation::kNever;
  auto opened = ActiveRun::Open(settings_, decision, std::move(mpi_.transport), &operators_);
  if (!opened.ok()) {
    if (ClaimOnNode("off " + decision.identity.job_key) != Claim::kTaken)
      TellUser(fmt::format("off on rank {}, nothing is recorded: {}", decision.identity.rank,
                           opened.status().message()),
               LogLevel::kError);
    return coordinator::Activation::kNever;
  }
  MarkOwner();
  if (forked_) forked_work_.BecomeRank();
  active_ = std::move(opened).value().release();
  active_pid_ = ::getpid();
  AdoptPlan(active_->identity);
  if (active_->sink != nullptr) sink_.Attach(active_->sink.get());
  session->identity = active_->identity;
  session->generation = active_->generation;
  session->selected = active_->selected;
  session->passes = active_->sink.get();
  session->manifest = active_->manifest.get();
  session->agreement = kernels_.Watch(active_->agreement.get());
  for (const std::string& remark : remarks_) NoteRemark(remark);
  OpenBreadcrumbs();
  TellMissingRanks();
  TellMisfitOfTopology();
  return coordinator::Activation::kActive;
}

void Session::OpenBreadcrumbs() {
  const Status opened = kernels_.Open(active_->identity, active_->selected, active_->crumbs());
  if (opened.ok()) return;
  active_->Note(opened.message());
  Report(opened.message());
}

// tdump-run knows the number of ranks only where its launcher makes them, or torchrun is told it.
void Session::TellMissingRanks() {
  const int world = active_->identity.world;
  std::string misfit;
  if (config_.ranks.FitsIn(static_cast<uint64_t>(world), &misfit)) return;
  const std::string text = fmt::format(
      "ranks: {} is out of range: the job has {} rank{}; only ranks that exist are recorded",
      misfit, world, world == 1 ? "" : "s");
  active_->Note(text);  // no loss: all there is to record is recorded
  Report(text);
}

// The same of the layout, which then says nothing of where ranks lie.
void Session::TellMisfitOfTopology() {
  const std::string misfit = filters::TopologyMisfit(config_, active_->identity.world);
  if (misfit.empty()) return;
  Report(misfit + "; it is not used: give sizes whose product is the number of ranks");
}

// The lines wait for the first step, so that they can name what marks steps.
void Session::Introduce(const std::string& rule) {
  if (introduced_ || active_ == nullptr) return;
  introduced_ = true;
  active_->FirstStep(rule);
  if (active_->sink != nullptr && runtime_.prepare_devices != nullptr && !closed_)
    active_->facts.staging_bytes = runtime_.prepare_devices();
  if (active_->identity.rank == 0) Print(StartLines(active_->facts));
}

void Session::FirstStep(const std::string& rule) {
  std::lock_guard lock(mutex_);
  // A C++ optimizer tells its class when it steps, which is later.
  const std::string cls = rule == "optimizer" ? optimizers_.ClassOfFirst() : "";
  Introduce(cls.empty() ? rule : fmt::format("{} ({})", rule, cls));
}

// Loading data takes operators that nobody asks for; a module is another matter.
bool Session::RanInForkedChild(const tdump::Boundary& boundary) {
  if (boundary.kind == BoundaryKind::kFirstOperator && IsDataLoaderWorker()) return false;
  forked_work_.Count();
  return true;
}

// Of a rank it belongs to the run. A process that is none speaks where it would have been one.
void Session::TellForkedWork() {
  const uint64_t children = forked_work_.children();
  if (children == 0) return;
  if (active_ != nullptr) {
    if (active_->selected) active_->Note(ForkedWorkText(children, true));
  } else if (!forked_ && SpeaksForTheJob() &&
             DecideRank({.kind = BoundaryKind::kFirstOperator}, false).active) {
    TellUser(ForkedWorkText(children, false), LogLevel::kWarning);
  }
}

void Session::Joined(const tdump::Boundary& boundary) {
  if (active_ == nullptr) return;
  active_->agreement->RunsInLockstep();
  const bool renumbered = boundary.rank >= 0 && (boundary.rank != active_->identity.rank ||
                                                 boundary.world != active_->identity.world);
  if (!renumbered) return;
  const std::string text = fmt::format(
      "joined a group as rank {} of {} when already recorded as rank {} of {} ({})", boundary.rank,
      boundary.world, active_->identity.rank, active_->identity.world, active_->identity.source);
  sink_.note(text);
}

// Before the process is a rank it waits for that.
void Session::Remark(std::string_view text) noexcept {
  try {
    std::lock_guard lock(mutex_);
    const auto [remark, is_new] = remarks_.emplace(text);
    if (is_new && active_ != nullptr && !closed_) NoteRemark(*remark);
  } catch (...) {  // out of memory
  }
}

void Session::NoteRemark(const std::string& text) {
  if (active_->selected) active_->Note(text);
}

void Session::TorchDoesNotFit(const std::string& reason) noexcept {
  sink_.note(reason);
  Report(reason);
}

void Session::TorchUnseen() noexcept {
  try {
    if (!SpeaksForTheJob()) return;  // a run that others write misses this rank by itself
    TellUser(fmt::format(
        "process {} used torch, but tdump was not loaded with it: nothing of it is recorded. In "
        "Python: start it without -I, -E and -S and leave PYTHONPATH and "
        "TORCH_DEVICE_BACKEND_AUTOLOAD as tdump-run sets them, or install tdump into its "
        "environment. In C++: call tdump::watch after LibTorch was loaded",
        ::getpid()));
  } catch (...) {  // out of memory
  }
}

// The run directory this process would use, before it activates.
std::string Session::ClockDirectory(const Identity& identity) const {
  return JoinPath(coordinator::ResolveRunPath(RunOptions(settings_), identity.job_label), "clock");
}

void Session::MpiInitializing(int thread_level) noexcept {
  try {
    std::lock_guard lock(mutex_);
    if (active_ != nullptr || closed_) return;  // it has its transport
    const Identity identity = IdentityBeforeMpi();
    if (identity.world < 2) return;
    mpi_announced_ =
        AnnounceMpi(Env::Posix(), ClockDirectory(identity), identity, thread_level).ok();
  } catch (...) {  // out of memory: the others find this rank missing
  }
}

void Session::MpiInitialized() noexcept {
  try {
    tdump::Boundary joined{.kind = BoundaryKind::kMpiInit};
    {
      std::lock_guard lock(mutex_);
      if (mpi_announced_) {
        const Identity identity = IdentityBeforeMpi();
        mpi_ = OpenMpiWorld(Env::Posix(), ClockDirectory(identity), identity);
        if (!mpi_.why_not.empty())
          TellUser(fmt::format("step numbers are agreed through files, not through MPI: {}",
                               mpi_.why_not),
                   LogLevel::kDebug);
      }
      joined.rank = mpi_.rank;
      joined.world = mpi_.world;
    }
    clock_.boundary(joined);
  } catch (...) {
  }
}

void Session::MpiFinalizing() noexcept {
  const coordinator::StepClock::Counts counts = clock_.counts();
  std::lock_guard lock(mutex_);
  if (active_ != nullptr && active_pid_ == ::getpid() && !closed_) active_->LeaveMpi(counts);
}

void Session::Close(int status) noexcept {
  try {
    if (active_pid_ != 0 && active_pid_ != ::getpid()) return;
    clock_.boundary({.kind = BoundaryKind::kExit, .number = status});
    const coordinator::StepClock::Counts counts = clock_.counts();  // its lock comes before ours
    std::lock_guard lock(mutex_);
    if (closed_) return;
    closed_ = true;
    TellForkedWork();
    if (active_ == nullptr) return;
    Introduce("none seen");
    active_->Close(*plan_.get(), counts);
    sink_.Detach();
    kernels_.Close(status == 0);
  } catch (const std::exception& error) {
    TellUser(fmt::format("closing the run failed: {}", error.what()));
  }
}

// Async-signal-safe as far as that goes: stores only. The run of the parent stays the parent's.
void Session::InForkedChild() noexcept {
  Session* session = Current();
  if (session == nullptr) return;
  session->sink_.Detach();
  session->kernels_.InForkedChild();
  if (session->active_ != nullptr && session->active_->sink != nullptr)
    session->active_->sink->AbandonAfterFork();
  session->active_ = nullptr;
  session->active_pid_ = 0;
  session->forked_ = true;
  session->forked_work_.InChild();
  session->introduced_ = false;
  new (&session->mutex_) std::mutex;
  session->clock_.AfterFork();
}

}  // namespace tdump::launch
