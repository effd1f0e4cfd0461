// Agreement: the step numbers that all ranks of a job share. The
// protocol, the same over every transport:
//
//   1. A process reports each counted step when it has ended: number, shape, begin time.
//   2. The lowest rank that still takes part decides: StepAligner puts the reports side by side and
//      says which steps are extra (only one rank ran them) and which global steps are settled.
//   3. Everyone takes the extras of its own rank out of its count: global = local - extras before.
//      Extras are few; a settled step costs no message of its own.
//   4. Nobody waits. An answer counts from the step after it came; until then the number is the
//      local one less the extras known, flagged unagreed. How many steps an answer took is its lag.
//   5. A deciding rank that leaves says so, one that falls silent is passed over; the next lowest
//      goes on from what was settled, and everybody reports again what was not.
//   6. Every message also stands in the process's slot file (slot_file.h): what was not answered in
//      time is settled from there by the merge (agreement_final.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "coordinator/pace.h"
#include "coordinator/slot_file.h"
#include "coordinator/step_aligner.h"
#include "coordinator/step_clock.h"
#include "coordinator/transport.h"
#include "io/manifest_writer.h"

namespace tdump::coordinator {

struct AgreementOptions {
  int32_t rank = 0;
  int32_t world = 1;
  bool lockstep = false;  // the ranks talk to each other in every step: begin times tell
  int64_t silence_ns = 30'000'000'000;
  int64_t pace_ns = 10'000'000;     // between two writes of the slot file, at least
  std::function<int64_t()> now_ns;  // does not run backwards; empty: the steady clock
};

// Thread-safe. Nothing throws; without a transport that works the steps stay unagreed.
class Agreement final : public StepAgreement {
 public:
  // `transport` null: this process is alone. `slots` and `manifest`
  // outlive the agreement and may be null.
  Agreement(AgreementOptions options, std::unique_ptr<AgreementTransport> transport,
            SlotWriter* slots, io::ManifestWriter* manifest);

  void Ended(const EndedStep& step) noexcept override;
  bool compares() const noexcept override { return !alone_; }
  uint64_t NumberOf(uint64_t local) noexcept override;
  // Takes no further part: says so, writes what is still open and the AgreementSection. Once.
  void Close() noexcept override;
  // The transport goes away before the process ends (MPI_Finalize).
  void LeaveTransport() noexcept;
  // The ranks turned out to talk to each other in every step: they joined MPI or a process group.
  void RunsInLockstep() noexcept;
  // Once more what the others said; for tests and for the end of the job.
  void Poll() noexcept;

  uint64_t settled() const;  // global steps below are settled, as far as this process knows
  std::string_view transport_name() const;

 private:
  struct Step {
    uint64_t local = 0;
    bool recorded = false;
  };

  bool Decides() const { return decider_ == options_.rank; }
  void EndedAlone(const EndedStep& step);
  void Say(const AgreementMessage& message);
  void Take(const AgreementMessage& message);
  void TakeExtra(int32_t rank, uint64_t local);
  void Gone(int32_t rank);
  void Exchange(bool eager);
  void Decide();
  void BecomeDecider();
  void ReportAgain();
  void PassOverSilent();
  void SettleOwn();
  void Flush(bool eager);
  void WriteStep(const Step& step, bool agreed);
  void FinishOwn();
  void WriteSummary();
  uint64_t GlobalOf(uint64_t local) const;
  int64_t Now() const { return options_.now_ns(); }

  mutable std::mutex mutex_;
  AgreementOptions options_;
  std::unique_ptr<AgreementTransport> transport_;
  const std::string transport_name_;
  SlotWriter* slots_;
  io::ManifestWriter* manifest_;
  Pace pace_;
  const bool alone_;

  int32_t decider_ = 0;
  std::set<int32_t> gone_;  // left or lost
  std::set<int32_t> lost_;
  std::map<int32_t, std::set<uint64_t>> extras_;
  uint64_t settled_ = 0;
  std::unique_ptr<StepAligner> aligner_;  // while this process decides

  // Vectors with room from the start, for a step or two as a rule: no step allocates.
  std::vector<AgreementMessage> reports_;  // own, not settled yet
  std::vector<Step> open_;        // own, recorded or extra, without an agreed number yet; in order
  uint64_t ended_ = 0;            // own steps so far
  int64_t oldest_report_ns_ = 0;  // when the first of `reports_` was given
  uint32_t max_lag_ = 0;
  bool closed_ = false;
};

}  // namespace tdump::coordinator
