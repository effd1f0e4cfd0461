// SkippedOperator: a module that ranks did not run, though the ranks beside them did
// (compare/skipped_ranks.h), where that is the first thing that went wrong.
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

struct SkippedOperator {
  char side = 'B';              // that skipped it
  std::vector<int32_t> ranks;   // ascending
  std::vector<int32_t> others;  // that ran it
  std::string name;             // the module's plain name
  uint64_t step = 0;            // of that side
  uint64_t order = 0;           // B's, of its first record
};

// "ranks 1-2 of B have no record of fc in step 3, though ranks 0,3 have".
std::string SkippedText(const std::string& name, char side, uint64_t step,
                        const std::vector<int32_t>& ranks, const std::vector<int32_t>& others);
std::string SkippedText(const SkippedOperator& skipped);

// Not thread-safe. The first of the earliest step that has any.
class SkippedFinder {
 public:
  // `allowed`: records that need no partner; it outlives the finder.
  explicit SkippedFinder(const RecordPatterns* allowed) : allowed_(allowed) {}

  // Passes come in order of step. `first`: the first difference beyond its bound, in B.
  void AddPass(const PassDiff& pass, const PassPair& pair,
               const std::optional<FirstDifference>& first);
  // Once, after the last pass: puts it in place of an origin that is later.
  void Replace(std::optional<Origin>* origin) const;

 private:
  struct Found {
    SkippedOperator skipped;
    uint64_t step_a = 0, step_b = 0;
    std::string path, op;
    bool is_before_others = false;  // it comes before `first`
  };
  const RecordPatterns* allowed_;
  std::optional<Found> found_;
};

}  // namespace tdump::compare
