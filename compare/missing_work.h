// MissingWork: work that one side alone did, where that is earlier than anything that differs: a
// micro-batch more, or a module that the other side does not run. What differs later follows.
//
//   1. Of a pass pair, records without a partner that nobody allowed, on one side; neither pass is
//      unfinished or damaged, and both runs were captured with the same rules.
//   2. A micro-batch is missing where the other side has no record of it, and has others. The first
//      of its records comes before the first difference of the pass, in the order of its side.
//   3. A module is missing where all records of a call are without a partner, its output among
//      them, and it does not return what it was given, as hashes or else statistics tell. Nothing
//      without a partner is left on the other side (that would be another name), and no record that
//      agrees lies between it and the first difference: where the next module is given the same, a
//      function did the work.
//   4. Of several passes the earliest step counts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compare/origin.h"
#include "compare/pass_diff.h"
#include "compare/record_patterns.h"
#include "core/key.h"

namespace tdump::compare {

struct Origin;

struct MissingWork {
  char side = 'A';       // that has it
  uint64_t records = 0;  // of it, in that pass
  Key key;               // of the first one
  std::string name;      // the module's plain name; of a micro-batch that of the first record
  // How many A and B have; 0: a module is missing.
  uint64_t micro_batches_a = 0, micro_batches_b = 0;
  std::string follows;  // what differs first: "emb, state weight.exp_avg"; may be empty

  bool is_micro_batch() const { return micro_batches_a + micro_batches_b > 0; }
};

// Not thread-safe.
class MissingWorkFinder {
 public:
  // `allowed`: records that need no partner; it outlives the finder. `same_rules`: of the capture.
  MissingWorkFinder(const RecordPatterns* allowed, bool same_rules)
      : allowed_(allowed), same_rules_(same_rules) {}

  // Passes come in order of step. `first`: the first difference beyond its bound, in B.
  void AddPass(const PassDiff& pass, const PassPair& pair,
               const std::optional<FirstDifference>& first);

  // Once, after the last pass: puts it in place of an origin that is not earlier.
  void Replace(std::optional<Origin>* origin) const;

 private:
  struct Found {
    uint64_t step_a = 0, step_b = 0;
    int32_t rank_a = 0;
    std::vector<int32_t> ranks;  // of B
    MissingWork work;
  };
  bool IsEarlierThan(const Origin& origin) const;

  const RecordPatterns* allowed_;
  const bool same_rules_;
  std::optional<Found> found_;
};

}  // namespace tdump::compare
