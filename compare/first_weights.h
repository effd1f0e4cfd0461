// FirstWeights: weights are recorded at the first step alone, unless a rule asks for more. Where
// the first step of one side is paired with a later one of the other, as of a job that was resumed,
// the weights of each were recorded at other work: they have no partner, and miss none.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "compare/pass_diff.h"
#include "compare/run_side.h"

namespace tdump::compare {

// Thread-safe. The sides outlive it.
class FirstWeights {
 public:
  FirstWeights(const RunSide& a, const RunSide& b);

  // Takes such weights out of what has no partner, and adds a note that says so.
  void LeaveOut(const PassPair& pair, PassDiff* diff) const;

 private:
  using Firsts = std::map<std::pair<int32_t, uint32_t>, PassRef>;  // by rank and process
  static Firsts FirstsOf(const RunSide& side);
  // The first pass of the same rank; null: it is that, or not known.
  static const PassRef* FirstBefore(const Firsts& firsts, const PassRef& pass);
  void LeaveOutOf(bool of_a, const PassPair& pair, PassDiff* diff) const;

  const RunSide& a_;
  const RunSide& b_;
  const Firsts firsts_a_, firsts_b_;
};

}  // namespace tdump::compare
