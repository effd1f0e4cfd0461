// ActiveRun: what a process that is a rank has on disk, and who it is.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "coordinator/agreement.h"
#include "coordinator/run_directory.h"
#include "coordinator/slot_file.h"
#include "coordinator/step_clock.h"
#include "coordinator/transport.h"
#include "core/identity.h"
#include "core/operator_table.h"
#include "core/status.h"
#include "filters/compiled_plan.h"
#include "io/capture_sink.h"
#include "io/manifest_writer.h"
#include "launch/config/effective_config.h"
#include "launch/runtime/launcher.h"
#include "launch/runtime/terminal.h"

namespace tdump::launch {

// Where the runs of a job with these settings lie, and how they are made.
coordinator::RunDirectoryOptions RunOptions(const EffectiveConfig& settings);

// Members may be used from any thread once Open() returned. Never destroyed in a job: what a late
// hook or exit handler touches must be there.
class ActiveRun {
 public:
  explicit ActiveRun(std::unique_ptr<Env> env) : run_env(std::move(env)) {}
  // Joins the run directory (makes it, or a generation in it), writes the identity record, prepares
  // the agreement and, where this rank records, the sink. `mpi`: the transport of a job whose MPI
  // all ranks share, else null. Error: nothing can be recorded, with the reason.
  static Result<std::unique_ptr<ActiveRun>> Open(
      const EffectiveConfig& settings, const RankDecision& who,
      std::unique_ptr<coordinator::AgreementTransport> mpi, const OperatorTable* operators);

  // What marks steps is known: goes on record.
  void FirstStep(const std::string& rule) noexcept;

  // Something that the user should know and that loses nothing of what was asked for.
  void Note(const std::string& text) noexcept;

  // MPI is about to be finalised: the transport lets go of it, and a closing record is written in
  // case the process ends without exit handlers.
  void LeaveMpi(coordinator::StepClock::Counts counts) noexcept;
  // Drains, writes counts and the closing record; see farewell.h.
  void Close(const filters::CompiledPlan& plan, coordinator::StepClock::Counts counts) noexcept;

  const std::unique_ptr<Env> run_env;  // of the run's files; output.layout: node is its business
  Identity identity;
  uint32_t generation = 0;
  bool selected = true;
  StartFacts facts;
  std::unique_ptr<io::ManifestWriter> manifest;
  std::unique_ptr<io::CaptureSink> sink;  // null: this rank does not record
  std::unique_ptr<coordinator::SlotWriter> slots;
  std::unique_ptr<coordinator::Agreement> agreement;
  const std::string& directory() const { return directory_.run; }
  // Where the breadcrumbs of this process are looked for.
  std::string crumbs() const;

 private:
  Status WriteIdentity();
  void OpenAgreement(std::unique_ptr<coordinator::AgreementTransport> mpi);
  Status OpenSink(const filters::Config& config, int local_ranks, const OperatorTable* operators);
  void NoteUnmatched(const filters::CompiledPlan& plan) noexcept;
  void WriteClose(coordinator::StepClock::Counts counts, std::string how) noexcept;

  coordinator::RunDirectory directory_;
  const OperatorTable* operators_ = nullptr;
  double drain_seconds_ = 30;
  bool sync_manifest_ = false;
  std::string config_hash_;
  std::string coordinates_;  // "tp=1 pp=2"
  uint64_t started_ns_ = 0;
};

}  // namespace tdump::launch
