// Session: tdump in one process, from the environment to the closing
// record. Wires the parts together.
//
//   1. Start(), when the collectors are loaded: reads the configuration, builds gate, plan, clock
//      and recorder. Nothing on disk, no thread, no message.
//   2. Activate(), called by the clock at the first operator, at MPI_Init or when a process group
//      exists: decides whether this process is a rank and which one; makes run directory, manifest,
//      sink and agreement (active_run.h).
//   3. Close(), at exit: closes the pass, waits for the writer at most exit.drain, writes the
//      closing record; rank 0 prints the verdict.
//   4. In a forked child everything of the parent is let go of without being touched. What runs
//      there is recorded nowhere; the parent says so at its end (forked_work.h).
// Failure at any point leaves the job as it is: one line, and tdump is out of this process.
//
// The one Session of a process is never destroyed: hooks and exit handlers may come late.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "coordinator/step_clock.h"
#include "core/runtime.h"
#include "filters/config.h"
#include "launch/runtime/active_run.h"
#include "launch/runtime/forked_work.h"
#include "launch/runtime/kernel_monitor.h"
#include "launch/runtime/late_plan.h"
#include "launch/runtime/late_sink.h"
#include "launch/runtime/mpi_link.h"
#include "launch/runtime/optimizers.h"
#include "launch/runtime/predicates.h"

namespace tdump::launch {

class Session final : public coordinator::Activator {
 public:
  // The session of this process; made at the first call. Null: tdump stays out.
  static Session* Start() noexcept;
  static Session* Current() noexcept;

  Runtime* runtime() { return &runtime_; }
  Optimizers& optimizers() { return optimizers_; }
  KernelReports* kernels() { return kernels_.reports(); }
  // Nothing of torch can be captured in this process; `reason` goes to
  // the user and into the coverage.
  void TorchDoesNotFit(const std::string& reason) noexcept;
  // A line for the coverage by which nothing is missing.
  void Remark(std::string_view text) noexcept;
  // This process ends, had torch, and nothing of tdump until now; rank 0 says so.
  void TorchUnseen() noexcept;
  void Boundary(const tdump::Boundary& boundary) noexcept { clock_.boundary(boundary); }
  void MpiInitializing(int thread_level) noexcept;
  void MpiInitialized() noexcept;
  void MpiFinalizing() noexcept;
  // `status`: of the exit.
  void Close(int status) noexcept;

  coordinator::Activation Activate(const tdump::Boundary& boundary,
                                   coordinator::ClockSession* session) override;
  void Joined(const tdump::Boundary& boundary) override;
  void FirstStep(const std::string& rule) override;
  bool RanInForkedChild(const tdump::Boundary& boundary) override;

 private:
  Session(EffectiveConfig settings, std::unique_ptr<filters::CompiledPlan> plan,
          coordinator::StepRule rule);
  static std::unique_ptr<Session> Make();
  static void InForkedChild() noexcept;
  void AdoptPlan(const Identity& identity);
  void Introduce(const std::string& rule);
  void OpenBreadcrumbs();
  void TellMissingRanks();
  void TellMisfitOfTopology();
  void TellForkedWork();
  void NoteRemark(const std::string& text);
  void Report(const std::string& text) noexcept;
  std::string ClockDirectory(const Identity& identity) const;

  const EffectiveConfig settings_;
  const filters::Config& config_;
  Gate gate_;
  OperatorTable operators_;
  LatePlan plan_;
  int planned_rank_ = 0;
  LateSink sink_;
  coordinator::StepClock clock_;
  Recorder recorder_;
  Optimizers optimizers_;
  KernelMonitor kernels_;
  std::unique_ptr<RuntimePredicates> predicates_;
  Runtime runtime_;
  std::string root_prefixes_;

  std::mutex mutex_;  // guards closing and remarks_
  std::set<std::string, std::less<>> remarks_;
  ActiveRun* active_ = nullptr;  // leaked on purpose
  int64_t active_pid_ = 0;
  MpiWorld mpi_;
  bool mpi_announced_ = false;
  bool closed_ = false;
  bool introduced_ = false;  // the start lines are printed
  bool forked_ = false;
  ForkedWork forked_work_;
};

}  // namespace tdump::launch
