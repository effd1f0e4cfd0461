// StepAligner: puts the steps of all ranks side by side. Runs in the deciding rank, and offline in
// the merge. A plain state machine: no clock, no lock, no output.
//
//   1. Every rank reports its steps in order: number, shape (mode and outermost calls), begin time.
//   2. Global step g is decided once every rank that takes part has reported its next step. The
//      mode most of them are in is that of g. Ranks in that mode have it in common, whatever they
//      call in it: a rank that skips a layer or runs a micro-batch more is in the same step.
//   3. A rank whose step has another mode, but one of whose next steps has that one, ran extra
//      steps (an evaluation, say): they are taken out, its later steps are that much lower. It is
//      waited for until others are kLookAhead steps further; then it does something else (another
//      program) and is numbered in its own order. Of a rank that is known to have run more
//      (TakeOutOtherShapes), steps of other calls are extra as well.
//   4. Where all modes agree and the ranks run in lockstep (`by_time`), a rank that begins its step
//      long before the others, and its following step together with their present one, not with
//      their next one, ran an extra step too. "Long" and "together" are measured by how far its
//      begin was from theirs in earlier steps.
//   5. A rank that lags behind by `silence_ns` after the others reported is lost: the others go on
//      without it. It takes part again with the first step it reports that is not settled yet.
// A decision may have to see a rank's following step first; nobody waits for it but this object.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "coordinator/agreement_message.h"
#include "core/types.h"

namespace tdump::coordinator {

struct StepReport {
  uint64_t local = 0;
  uint64_t shape = 0;
  int64_t began_ns = 0;  // wall clock of the rank
  StepMode mode = StepMode::kForward;
};

inline StepReport StepReportOf(const AgreementMessage& message) {
  return {message.local, message.shape, message.began_ns, static_cast<StepMode>(message.mode)};
}

struct ExtraStep {
  int32_t rank = 0;
  uint64_t local = 0;
  bool by_time = false;
  bool operator==(const ExtraStep&) const = default;
};

// Not thread-safe. `now_ns`: any clock that does not run backwards.
class StepAligner {
 public:
  struct Options {
    bool by_time = false;
    int64_t silence_ns = 30'000'000'000;
  };
  struct Progress {
    std::vector<ExtraStep> extras;
    std::vector<int32_t> lost;
  };

  StepAligner(int32_t world, Options options);

  // Goes on from where another process decided until now: `extras` of each rank so far.
  void ContinueFrom(uint64_t columns, const std::vector<uint64_t>& extras);
  void Report(int32_t rank, const StepReport& report, int64_t now_ns);
  void Leave(int32_t rank);  // reports no more; those given still count
  void Lose(int32_t rank);
  void UseTimes() { options_.by_time = true; }
  // What is known of a rank once its job is over: no step of it is extra; it ran more than others.
  void KeepOrder(int32_t rank);
  void TakeOutOtherShapes(int32_t rank);
  // Decides all it can.
  Progress Advance(int64_t now_ns);

  uint64_t columns() const { return column_; }  // global steps below are settled

 private:
  static constexpr size_t kModes = 4;
  struct Member {
    // Not placed yet. A vector: a step or two as a rule, and then it allocates nothing.
    std::vector<StepReport> reports;
    uint64_t extras = 0;
    bool left = false;
    bool lost = false;
    bool apart = false;  // does something else than the others
    bool keeps_order = false;
    bool by_shape = false;      // steps of other calls are extra
    std::vector<int64_t> lags;  // begin minus that of the others, of the latest columns

    uint64_t Global(const StepReport& report) const { return report.local - extras; }
    void DropFirst() { reports.erase(reports.begin()); }
  };
  enum class Outcome : uint8_t { kDecided, kUndecided, kExtraFound };

  bool Has(const Member& member) const;  // reported a step for the present column
  const StepReport* Next(const Member& member) const;
  void DropSettled(Member* member);
  void SkipToReported();
  void FindReporting();
  bool AnyLeft(const std::vector<int32_t>& ranks) const;
  bool EveryoneReported(int64_t now_ns, Progress* progress);
  // What a step must be to be the present one.
  struct Column {
    StepMode mode = StepMode::kForward;
    uint64_t shape = 0;  // of the ranks that are not taken by their shape
    bool draw = false;
  };
  // How many ranks stand behind a mode.
  struct Support {
    int fronts = 0;     // have it in this column
    int followers = 0;  // come to it
    int32_t first = 0;  // rank
  };
  Column ColumnOf(const std::vector<int32_t>& ranks);
  void CountFollowers(const std::vector<int32_t>& ranks,
                      std::array<Support, kModes>* supports) const;
  uint64_t ShapeOf(const std::vector<int32_t>& ranks, StepMode mode);
  static bool Fits(const Member& member, const StepReport& report, const Column& column);
  static size_t StepsUntil(const Member& member, const Column& column);
  bool MustWait(const std::vector<int32_t>& ranks, const Column& column) const;
  bool RanAlong(const std::vector<int32_t>& ranks, const Member& member, size_t steps,
                const Column& column) const;
  Outcome ByMode(const std::vector<int32_t>& ranks, bool patient, Progress* progress);
  Outcome ByTime(const std::vector<int32_t>& ranks, bool patient, Progress* progress);
  void TakeOut(int32_t rank, bool by_time, Progress* progress);
  void Settle(const std::vector<int32_t>& ranks);
  // The median; `which`: 0 for their present step, 1 for the next. None: a rank has not got so far.
  std::optional<int64_t> OthersBegan(const std::vector<int32_t>& ranks, int32_t except,
                                     size_t which);

  Options options_;
  std::vector<Member> members_;
  std::vector<int32_t> reporting_;  // of FindReporting, its memory kept
  std::vector<int64_t> values_;     // of medians, as well
  std::vector<uint64_t> shapes_;    // of ShapeOf
  uint64_t column_ = 0;
  int64_t waiting_since_ns_ = -1;  // since somebody had reported for the present column
};

}  // namespace tdump::coordinator
