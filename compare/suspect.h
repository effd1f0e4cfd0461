// Suspect: the first difference of one pass, with all that the choice among suspects
// (compare/origin_finder.h) and the report need of it: its pass is gone by then.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compare/handed_on.h"
#include "compare/origin.h"
#include "compare/origin_report.h"
#include "compare/stages.h"

namespace tdump::compare {

struct Suspect {
  Candidate candidate;
  Parting parting;
  bool of_numbers = false;  // the difference is in integers
  uint64_t key_hash = 0;
  Origin origin;
  // The differing parameter that the difference is, then those of calls between `last_agreeing`
  // and it.
  std::vector<ParameterDifference> passed_by;
  // The first of the parameters outside their bound that a call before the difference used.
  std::optional<ParameterDifference> outside_before;
  // Its error is more than what went into it, and its own roundings, explain.
  bool adds_error = false;
  bool well_beyond = false;   // by more than kWellDb; an output of the forward
  bool own_within = false;    // its own parameter differs within its bound
  bool own_outside = false;   // or outside
  bool of_state = false;      // an optimizer keeps it
  bool of_gradients = false;  // an optimizer keeps it, and it adds an error to its gradients
  bool special = false;       // NaN or infinities are on one side only
};

// Whether what is known of one rank is about the other: where ranks are put together, of any.
inline bool SameRank(int32_t x, int32_t y) { return x == y || x == kAllRanks || y == kAllRanks; }

// Whether an outcome differs as weights that are a little off make nothing differ.
bool IsBeyondDrift(const PassDiff& pass, const Outcome& outcome);

Candidate CandidateOf(const PassDiff& pass, const PassPair& pair, const FirstDifference& first,
                      const Stages& stages);
// `parameters`: those found to differ so far.
Suspect MakeSuspect(const PassDiff& pass, const PassPair& pair, const FirstDifference& first,
                    const std::vector<ParameterDifference>& parameters, const Stages& stages);

}  // namespace tdump::compare
