// Records of which both sides kept less than the values: a slice, a sample, statistics.
#pragma once

#include <functional>

#include "compare/verdict.h"
#include "core/status.h"
#include "io/records.h"

namespace tdump::compare {

// Measures two records of the same shape that have payloads.
using MeasureRecords =
    std::function<Result<Metrics>(const io::Record& a, const io::Record& b, const Bound& bound)>;

// Judges what both sides have, of shapes that are equal, best first: the same slice, the same
// sample (both as if they were the tensor, which a note says), else statistics. Statistics that
// differ prove that values differ; equal ones prove nothing, and nothing is judged.
Status JudgeParts(const io::Record& a, const io::Record& b, const Bound& bound,
                  const MeasureRecords& measure, Comparison* comparison);

}  // namespace tdump::compare
