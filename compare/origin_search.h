// OriginSearch: all that may turn out to be the origin of a diff, and what the report says of it:
// the first difference (compare/origin_finder.h), work that one side alone did
// (compare/missing_work.h), a module that ranks skipped (compare/skipped_operator.h), a rank that
// was killed (compare/killed_origin.h), updates that part though their gradients agree
// (compare/update_fault.h), and what optimizers keep that nothing explains
// (compare/unexplained_states.h).
#pragma once

#include <optional>

#include "compare/diff.h"
#include "compare/killed_origin.h"
#include "compare/missing_work.h"
#include "compare/origin_finder.h"
#include "compare/pairing.h"
#include "compare/pass_diff.h"
#include "compare/pass_results.h"
#include "compare/run_side.h"
#include "compare/signature.h"
#include "compare/skipped_operator.h"
#include "compare/unexplained_states.h"
#include "compare/update_fault.h"
#include "compare/weight_list.h"

namespace tdump::compare {

// Not thread-safe. All it is given outlives it.
class OriginSearch {
 public:
  OriginSearch(const RunSide& a, const RunSide& b, const DiffOptions& options, DiffReport* report)
      : b_(b),
        options_(options),
        report_(report),
        finder_(&report->parameters.differing, Stages(a, b)),
        missing_(&options.allow_unpaired, !HaveOtherRules(a.Facts(), b.Facts())),
        skipped_(&options.allow_unpaired),
        killed_(&options.allow_unpaired),
        unexplained_(&a, &b, &options.pass.allow_failed) {}

  const OriginFinder& finder() const { return finder_; }

  // Passes come in order of step and rank, their weights added before. `parted`: the inputs are
  // other ones, and so is all that follows.
  void AddPass(const PassDiff& pass, const PassPair& pair, bool parted);

  // After the last pass: which of them is the origin, the differences beside it, and the growth of
  // the error. `diff_pair` compares a pass again.
  void Choose(const WeightList& weights, const PassResults::DiffPair& diff_pair);
  // When the runs are judged: why the origin is what it is.
  void Explain(const WeightList& weights);

 private:
  void TellUnexplainedStates();
  Growth GrowthOfOrigin(const OriginFinder::Choice& choice,
                        const PassResults::DiffPair& diff_pair) const;
  template <class Change>
  void ForEachOrigin(const Change& change);

  const RunSide& b_;
  const DiffOptions& options_;
  DiffReport* const report_;
  OriginFinder finder_;
  MissingWorkFinder missing_;
  SkippedFinder skipped_;
  KilledFinder killed_;
  UpdateFaultFinder update_;
  UnexplainedStates unexplained_;
};

}  // namespace tdump::compare
