// KilledOrigin: a rank that was killed in a step, where a tensor that lacks its part
// (compare/killed_ranks.h) is the first thing that went wrong. Nothing but the name of the origin
// comes of it: what fails fails.
//
//   1. Of the tensors that lack such a part, the first counts that fails, or of which a copy is
//      listed as lost.
//   2. An origin that comes before it stays: of an earlier step, earlier in that step, or made of
//      a weight that is a fault and comes before it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compare/origin.h"
#include "compare/pass_diff.h"
#include "compare/record_patterns.h"

namespace tdump::compare {

struct Origin;
struct ParameterDifference;

struct KilledOrigin {
  char side = 'B';             // of which they are ranks
  std::vector<int32_t> ranks;  // that were killed after the same record, ascending
  KilledRank first;            // of these
  Key lacking;                 // of the first tensor that lacks their part
  uint64_t step = 0;           // of that side
};

// "killed or left by _exit in 1.act", "killed or left by _exit after 1.fc1"; printable.
std::string KilledText(const KilledOrigin& killed);

// Not thread-safe.
class KilledFinder {
 public:
  // `allowed`: records that need no partner; it outlives the finder.
  explicit KilledFinder(const RecordPatterns* allowed) : allowed_(allowed) {}

  // Passes come in order of step. `parted`: copies that are lost are not listed.
  void AddPass(const PassDiff& pass, const PassPair& pair, bool parted);
  // Once, after the last pass: puts it in place of an origin that is not earlier. `weights`: those
  // that differ.
  void Replace(const std::vector<ParameterDifference>& weights,
               std::optional<Origin>* origin) const;

 private:
  struct Found {
    KilledOrigin killed;
    uint64_t step_a = 0, step_b = 0;
    uint64_t order = 0;  // in B
  };
  void AddSide(const PassDiff& pass, const PassPair& pair, char side, bool parted);
  bool IsEarlier(uint64_t step, uint64_t order) const;

  const RecordPatterns* allowed_;
  std::optional<Found> found_;
};

}  // namespace tdump::compare
