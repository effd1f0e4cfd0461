#include "compare/job_diff.h"

#include <utility>

#include "compare/step_before.h"

namespace tdump::compare {

Result<JobSides> OpenJobSides(const RunSide& a, const RunSide& b, const PairOptions& pairing,
                              const JobOptions& job) {
  TDUMP_ASSIGN_OR_RETURN(JobSide of_a, JobSide::Make(&a, pairing, job.topology_a));
  TDUMP_ASSIGN_OR_RETURN(JobSide of_b, JobSide::Make(&b, pairing, job.topology_b));
  TDUMP_ASSIGN_OR_RETURN(PassPairing steps, PairPasses(of_a, of_b, pairing));
  return JobSides{std::move(of_a), std::move(of_b), std::move(steps)};
}

JobDiff::JobDiff(JobSides sides, const JobOptions& options, std::optional<SharedPairs> shared,
                 DiffProgress* progress, OnOpened on_opened)
    : sides_(std::move(sides)),
      options_(options),
      pairs_(&sides_.a, &sides_.b, &options_),
      shared_(std::move(shared)),
      progress_(progress),
      on_opened_(std::move(on_opened)) {}

// In a team all processes take the way that the first one takes.
Result<PassDiff> JobDiff::Diff(const PassPair& pair, PassDiffOptions options) {
  Result<OpenedPair> opened = Open(pair, options);
  const bool follows = before_of_.a.step + 1 == pair.a.step && before_of_.b.step + 1 == pair.b.step;
  if (follows) options.before = [this] { return before_; };
  options.is_first_step = IsFirstStep(pair);
  if (!shared_) {
    TDUMP_RETURN_IF_ERROR(opened.status());
    return DiffViews(*std::move(opened), options);
  }
  using StepDecision = SharedPairs::StepDecision;
  const bool misfit = opened.status().code() == StatusCode::kInvalidArgument;
  TDUMP_ASSIGN_OR_RETURN(const StepDecision decision,
                         shared_->Begin(opened.ok() ? StepDecision::kGoOn
                                        : misfit    ? StepDecision::kStop
                                                    : StepDecision::kSkip));
  stopped_ = decision == StepDecision::kStop;
  if (decision != StepDecision::kGoOn)
    return opened.ok() ? Internal("not opened by process 0") : std::move(opened).status();
  if (!opened.ok()) {
    shared_->Send(nullptr);
    return std::move(opened).status();
  }
  options.shared = &*shared_;
  return DiffViews(*std::move(opened), options);
}

Result<OpenedPair> JobDiff::Open(const PassPair& pair, const PassDiffOptions& options) {
  const auto show = [this](size_t done, size_t all) { progress_->ShowPuttingTogether(done, all); };
  TDUMP_ASSIGN_OR_RETURN(OpenedPair opened, pairs_.Open(pair, Wanted(options), show));
  TDUMP_RETURN_IF_ERROR(on_opened_(opened));
  return opened;
}

void JobDiff::KeepBefore(const std::shared_ptr<const PassDiff>& diff, const PassPair& pair) {
  before_ = StepBefore::Of(diff);
  before_of_ = pair;
}

}  // namespace tdump::compare
