// JobDiff: the steps of two jobs whose ranks are put together (compare/job_pairs.h), compared one
// after the other. Processes of a team share the pairs of each step (compare/shared_pairs.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "compare/diff_progress.h"
#include "compare/job_pairs.h"
#include "compare/job_side.h"
#include "compare/pairing.h"
#include "compare/pass_diff.h"
#include "compare/shared_pairs.h"
#include "compare/step_before.h"

namespace tdump::compare {

struct JobSides {
  JobSide a, b;
  PassPairing pairing;  // of their steps
};
// `a` and `b` outlive what is returned. Errors: as JobSide::Make and PairPasses.
Result<JobSides> OpenJobSides(const RunSide& a, const RunSide& b, const PairOptions& pairing,
                              const JobOptions& job);

// Not thread-safe.
class JobDiff {
 public:
  // A step that was opened, before it is compared. Error: it is not.
  using OnOpened = std::function<Status(const OpenedPair& opened)>;

  // `progress` outlives it. `shared`: none: this process compares all.
  JobDiff(JobSides sides, const JobOptions& options, std::optional<SharedPairs> shared,
          DiffProgress* progress, OnOpened on_opened);
  JobDiff(const JobDiff&) = delete;  // it points into itself
  JobDiff& operator=(const JobDiff&) = delete;

  const JobSide& a() const { return sides_.a; }
  const JobSide& b() const { return sides_.b; }
  const PassPairing& pairing() const { return sides_.pairing; }
  // As of JobPairs.
  std::string MapText() const { return pairs_.MapText(); }
  std::string StageNote() const { return pairs_.StageNote(); }

  // In order of steps. Error (kInvalidArgument): the map, or the models, do not fit.
  Result<PassDiff> Diff(const PassPair& pair, PassDiffOptions options);
  // What came of a step, where the next one may need it: its metadata, and open files, where
  // parameters were recorded.
  void KeepBefore(const std::shared_ptr<const PassDiff>& diff, const PassPair& pair);

  // Of a team: its error, which is final; whether this process is the one that reports; and whether
  // that one said to stop. Without one: {}, true, false.
  Status TeamStatus() const { return shared_ ? shared_->status() : Status(); }
  bool is_first() const { return !shared_ || shared_->is_first(); }
  bool is_stopped() const { return stopped_; }

 private:
  Result<OpenedPair> Open(const PassPair& pair, const PassDiffOptions& options);

  const JobSides sides_;
  const JobOptions options_;
  JobPairs pairs_;
  std::optional<SharedPairs> shared_;
  DiffProgress* const progress_;
  const OnOpened on_opened_;
  std::shared_ptr<const StepBefore> before_;  // the last step, where the next may need it
  PassPair before_of_;
  bool stopped_ = false;  // by process 0
};

}  // namespace tdump::compare
