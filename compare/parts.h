// Records of which both sides kept less than the values: a slice, a sample, statistics.
#pragma once

#include <functional>

#include "compare/payload_view.h"
#include "compare/rules.h"
#include "compare/summary.h"
#include "compare/verdict.h"
#include "core/status.h"
#include "io/records.h"

namespace tdump::compare {

// The payload of a record's slice (io::SliceAsRecord). May give it other strides: those of the
// bytes that it reads.
using OpenSlice = std::function<Result<ReadBytes>(io::Record* slice)>;

// Judges what both sides have, of shapes that are equal: the same slice and the same sample, both
// as if they were the tensor, which a note says. Empty ones of a tensor that has elements say
// nothing.
Status JudgeParts(const io::Record& a, const OpenSlice& open_a, const io::Record& b,
                  const OpenSlice& open_b, const Bound& bound, Comparison* comparison);

struct Summarised {
  const io::Record& record;
  const Summary& summary;
};
// By statistics. A difference proves that bits differ; one that no values within the bound can have
// proves that it is exceeded. Agreement proves nothing. Of what a rule (may be null) asks of the
// values statistics know special values only. Beside a slice or a sample (JudgeParts) that agrees
// they tell of the rest.
void JudgeStatistics(const Summarised& a, const Summarised& b, const Bound& bound,
                     const BoundRule* rule, Comparison* comparison);

}  // namespace tdump::compare
