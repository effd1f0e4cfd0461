#include "compare/draft_map.h"

#include "compare/job_side.h"
#include "compare/job_step.h"
#include "compare/suggest_map.h"

namespace tdump::compare {

Result<std::string> DraftMap(const RunSide& a, const RunSide& b, const PairOptions& options,
                             std::span<const NameMap> maps) {
  TDUMP_ASSIGN_OR_RETURN(const JobSide of_a, JobSide::Make(&a, options, ""));
  TDUMP_ASSIGN_OR_RETURN(const JobSide of_b, JobSide::Make(&b, options, ""));
  TDUMP_ASSIGN_OR_RETURN(const PassPairing pairing, PairPasses(of_a, of_b, options));
  if (pairing.pairs.empty()) return InvalidArgument(WhyNoPass(of_a, of_b, pairing));
  TDUMP_ASSIGN_OR_RETURN(const auto step_a, JobStep::Open(of_a, pairing.pairs.front().a));
  TDUMP_ASSIGN_OR_RETURN(const auto step_b, JobStep::Open(of_b, pairing.pairs.front().b));
  return SuggestMap(step_a->Names(), step_b->Names(), maps);
}

}  // namespace tdump::compare
