// BoundsUsed: by which bounds the pairs of other bits were found to agree, and which came closest
// to its own, for a report that says SAME.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>

#include "compare/pass_diff.h"
#include "compare/row.h"

namespace tdump::compare {

struct BoundsUsed {
  struct Closest {
    Row row;
    double error_db = 0, bound_db = 0;  // SQNR: as it is, and the least that is explained
  };

  uint64_t pairs = 0;  // judged by the power of their error
  double least_db = std::numeric_limits<double>::infinity();
  double most_db = -std::numeric_limits<double>::infinity();
  std::optional<Closest> closest;  // of them, in dB; none where all errors are 0
  uint64_t other_pairs = 0;        // judged element by element (weights), or by a rule
  std::set<std::string> others;    // the first bounds of those

  // An outcome that does not fail.
  void Add(const PassDiff& pass, const PassPair& pair, const Outcome& outcome);
};

// "12 pairs of other bits, of 24.4 to 60.3 dB explained; closest to its bound ..."; "" for none.
std::string BoundsUsedText(const BoundsUsed& used);

}  // namespace tdump::compare
