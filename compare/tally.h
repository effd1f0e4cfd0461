// Tally: what the pairs of a comparison add up to: the numbers of its report, and in the end
// whether the runs are the same, differ, or cannot be compared.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "compare/diff.h"
#include "compare/pairing.h"
#include "compare/pass_diff.h"
#include "compare/row.h"
#include "compare/run_side.h"
#include "compare/unpaired.h"
#include "compare/weight_list.h"
#include "core/types.h"

namespace tdump::compare {

// Not thread-safe. Both outlive it.
class Tally {
 public:
  Tally(const DiffOptions* options, DiffReport* report) : options_(options), report_(report) {}

  // A pair that could be read.
  void Add(const PassDiff& pass, const Outcome& outcome);
  // The same pair, where it is what the model was given.
  void AddInput(const Row& row, const Outcome& outcome);

  // Once, when all that is paired, and all that is not, was added. `a`, `b`: the sides of
  // `pairing`.
  void Judge(const RunSide& a, const RunSide& b, const PassPairing& pairing,
             const UnpairedList& unpaired, const WeightList& weights);

 private:
  void Count(const Outcome& outcome);
  void NoteUnjudged(const PassDiff& pass, const Outcome& outcome);
  std::string WhyNoRecord(const UnpairedList& unpaired) const;
  std::string WhyNoneJudged() const;
  std::string KeepAdvice(const char* otherwise) const;

  const DiffOptions* options_;
  DiffReport* report_;
  // What A and B kept of the first operator's pair of which nothing could be judged.
  std::optional<std::pair<Parts, Parts>> unjudged_;
  uint64_t compared_ = 0;                                // pairs but for what the model was given
  uint64_t observations_ = 0, observations_judged_ = 0;  // of those, but for weights
};

}  // namespace tdump::compare
