// Records of which both sides kept less than the values: a slice, a sample, statistics.
#pragma once

#include <functional>

#include "compare/rules.h"
#include "compare/summary.h"
#include "compare/verdict.h"
#include "core/status.h"
#include "io/records.h"

namespace tdump::compare {

// Measures two records of the same shape that have payloads.
using MeasureRecords =
    std::function<Result<Metrics>(const io::Record& a, const io::Record& b, const Bound& bound)>;

// Judges what both sides have, of shapes that are equal: the same slice, else the same sample, both
// as if they were the tensor, which a note says.
Status JudgeParts(const io::Record& a, const io::Record& b, const Bound& bound,
                  const MeasureRecords& measure, Comparison* comparison);

struct Summarised {
  const io::Record& record;
  const Summary& summary;
};
// By statistics. A difference proves that bits differ; one that no values within the bound can have
// proves that it is exceeded. Agreement proves nothing. Of what a rule (may be null) asks of the
// values statistics know special values only.
void JudgeStatistics(const Summarised& a, const Summarised& b, const Bound& bound,
                     const BoundRule* rule, Comparison* comparison);

}  // namespace tdump::compare
