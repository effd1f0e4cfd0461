#include "compare/parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "compare/payload_view.h"
#include "io/value_parts.h"

namespace tdump::compare {
namespace {

Answer SameIf(bool same) { return same ? Answer::kSame : Answer::kDiffers; }

bool SameSlice(const io::Record& a, const io::Record& b) {
  return a.slice && b.slice && a.slice->begins == b.slice->begins &&
         a.slice->sizes == b.slice->sizes && a.slice->steps == b.slice->steps;
}

// The sampled elements as a tensor of one dimension.
io::Record SampleAsRecord(const io::Record& record) {
  io::Record flat = record;
  const uint64_t unit = std::max<uint32_t>(1, record.dtype.unit_bytes());
  flat.sizes = {static_cast<int64_t>(record.sample->size() / unit)};
  flat.strides = {1};
  return flat;
}

std::string SpecialText(const Summary& summary) {
  return fmt::format("{} NaN, {} infinite", summary.nan.value_or(0),
                     summary.positive_inf.value_or(0) + summary.negative_inf.value_or(0));
}

}  // namespace

Status JudgeParts(const io::Record& a, const io::Record& b, const Bound& bound,
                  const MeasureRecords& measure, Comparison* comparison) {
  if (SameSlice(a, b)) {
    const io::Record left = io::SliceAsRecord(a), right = io::SliceAsRecord(b);
    TDUMP_ASSIGN_OR_RETURN(const Metrics metrics, measure(left, right, bound));
    JudgeMetrics(metrics, comparison);
    comparison->notes.push_back("of the slice that was kept");
  } else if (a.sample && b.sample && a.sample->size() == b.sample->size()) {
    const io::Record left = SampleAsRecord(a), right = SampleAsRecord(b);
    TDUMP_ASSIGN_OR_RETURN(const Metrics metrics, Measure({&left, FromMemory(*a.sample)},
                                                          {&right, FromMemory(*b.sample)}, bound));
    JudgeMetrics(metrics, comparison);
    comparison->notes.push_back(fmt::format("of a sample of {} elements", left.sizes[0]));
  }
  return Status();
}

void JudgeStatistics(const io::Record& a, const io::Record& b, const Summary& of_a,
                     const Summary& of_b, const Bound& bound, Comparison* comparison) {
  Verdict& v = comparison->verdict;
  SummaryJudgement judged = JudgeSummaries(of_a, of_b, bound);
  const bool comparable =
      a.statistics && b.statistics && a.dtype == b.dtype && StoredOnce(a) == StoredOnce(b);
  const bool equal = comparable && *a.statistics == *b.statistics;
  const bool exact = bound.relative == 0 && bound.scale == 0;
  if (judged.checksums_differ || (comparable && !equal)) v.bitwise = Answer::kDiffers;
  if (comparable && !equal && exact && judged.outside.empty() && !judged.special_differs)
    judged.outside = "they would be equal";
  if (judged.special_differs) v.special = Answer::kDiffers;
  if (!judged.outside.empty()) v.tolerance = Answer::kDiffers;
  const bool known = of_a.nan || !judged.checksums_differ;
  if (known) v.statistics = SameIf(judged.outside.empty() && !judged.special_differs);
  if (comparison->evidence == Evidence::kMeta) comparison->evidence = Evidence::kStatistics;
  std::string note;
  if (judged.special_differs)
    note = fmt::format("statistics differ: {} and {}", SpecialText(of_a), SpecialText(of_b));
  else if (!judged.outside.empty())
    note = "statistics differ: " + judged.outside;
  else if (!known)
    note = "checksums differ, values were not kept";
  else
    note = equal ? "statistics agree, values were not kept"
                 : "statistics agree within the bound, values were not kept";
  comparison->notes.push_back(std::move(note));
}

}  // namespace tdump::compare
