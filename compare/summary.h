// Summary: what statistics say of a tensor whose values were not kept, and what two of them prove.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compare/metrics.h"
#include "core/statistics.h"

namespace tdump::compare {

// Of the finite elements, |z| of complex numbers. What is not known is left out.
struct Summary {
  std::optional<double> min, max, mean, mean_abs, rms;
  std::optional<uint64_t> nan, positive_inf, negative_inf;
  std::string checksum;        // of the tool that made it; equal for equal values
  bool counts = true;          // false: the three counts are 0 or "some"
  double precision = 0x1p-40;  // of the numbers, relative to the largest one that they are of

  bool operator==(const Summary&) const = default;
};

Summary SummaryOf(const Statistics& statistics);

// Of two tensors of one shape.
struct SummaryJudgement {
  bool special_differs = false;  // NaN or infinities
  bool checksums_differ = false;
  // What cannot be where every element is within the bound: "max 3 and 4.5, 0.01 apart is within
  // the bound"; "" where all that is known can.
  std::string outside;
};
SummaryJudgement JudgeSummaries(const Summary& a, const Summary& b, const Bound& bound);

}  // namespace tdump::compare
