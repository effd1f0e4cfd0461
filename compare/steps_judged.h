// StepsJudged: in which of the paired steps something was judged, and why nothing was in the
// others.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "compare/diff.h"
#include "compare/pass_diff.h"

namespace tdump::compare {

// Not thread-safe. Steps are B's.
class StepsJudged {
 public:
  // A pair of passes of the step; those of its outcomes that count are added besides.
  void AddPass(uint64_t step, const PassDiff& pass);
  void Add(uint64_t step, const Outcome& outcome);

  // Those in which nothing was; empty where nothing was in any.
  std::vector<StepsNotJudged> NotJudged() const;

 private:
  // The last one that holds.
  enum class Found : uint8_t { kNothing, kAlone, kUnreadable, kTooLittle, kJudged };

  void Raise(uint64_t step, Found found);

  std::map<uint64_t, Found> steps_;
};

}  // namespace tdump::compare
