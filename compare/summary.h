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
  std::string checksum;  // of the tool that made it; equal for equal values
  bool counts = true;    // false: the three counts are 0 or "some"
  // Largest error of min, max, mean, mean |x| and rms, relative to the largest magnitude in the
  // tensor; the default is that of sums in double.
  double precision = 0x1p-40;

  bool operator==(const Summary&) const = default;
};

Summary SummaryOf(const Statistics& statistics);

// Of two tensors of one shape.
struct SummaryJudgement {
  size_t in_common = 0;          // statistics that are known on both sides
  bool special_differs = false;  // NaN or infinities
  bool checksums_differ = false;
  // What cannot be where every element is within the bound: "max 3 and 4.5; the bound allows
  // 0.01 between them"; "" where all that is known can.
  std::string outside;
};
// `least`: numbers up to this one may be zero on one side (flushed subnormal ones).
SummaryJudgement JudgeSummaries(const Summary& a, const Summary& b, const Bound& bound,
                                double least = 0);

}  // namespace tdump::compare
