#include "compare/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compare/element.h"
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

bool IsWideFloat(const NumberFormat& format) {
  return format.kind == NumberKind::kFloat && format.bits >= 16;
}

// Statistics are of the elements that are stored, and of quantised ones as they are stored.
bool AreOfTheSameNumbers(const io::Record& a, const io::Record& b) {
  if (StoredOnce(a) != StoredOnce(b)) return false;
  return a.dtype == b.dtype || (IsWideFloat(FormatOf(a.dtype)) && IsWideFloat(FormatOf(b.dtype)));
}

// The larger one of both formats.
double LeastNormal(const DType& a, const DType& b) {
  double least = 0;
  for (const NumberFormat& format : {FormatOf(a), FormatOf(b)}) {
    if (format.kind == NumberKind::kFloat || format.kind == NumberKind::kComplex)
      least = std::max(least, std::ldexp(1.0, 1 - format.bias));
  }
  return least;
}

// Where special values may differ their counts say nothing, and the others are of other elements.
void AllowSpecial(const BoundRule& rule, Summary* a, Summary* b) {
  const bool nan = rule.allow_nan || (rule.expect && rule.expect->Names("nan_mismatch"));
  const bool inf = rule.allow_inf || (rule.expect && rule.expect->Names("inf_mismatch"));
  const bool parted = (nan && a->nan != b->nan) || (inf && a->positive_inf != b->positive_inf) ||
                      (inf && a->negative_inf != b->negative_inf);
  for (Summary* summary : {a, b}) {
    if (parted) summary->min = summary->max = summary->mean = summary->mean_abs = summary->rms = {};
    if (nan) summary->nan.reset();
    if (inf) summary->positive_inf.reset();
    if (inf) summary->negative_inf.reset();
  }
}

std::string_view LessKeptText(const io::Record& a, const io::Record& b) {
  if (a.payload) return "B kept no values";
  return b.payload ? "A kept no values" : "values were not kept";
}

void JudgeUnruled(const io::Record& a, const io::Record& b, const Summary& of_a,
                  const Summary& of_b, const Bound& bound, Comparison* comparison) {
  if (!AreOfTheSameNumbers(a, b)) return;
  Verdict& v = comparison->verdict;
  const bool bits_differ = v.bitwise == Answer::kDiffers;  // by hash
  SummaryJudgement judged = JudgeSummaries(of_a, of_b, bound, LeastNormal(a.dtype, b.dtype));
  if (judged.in_common == 0) return;
  const bool whole = a.statistics && b.statistics && a.dtype == b.dtype;
  const bool equal = whole && *a.statistics == *b.statistics;
  if (judged.checksums_differ || (whole && !equal)) v.bitwise = Answer::kDiffers;
  const bool exact = bound.relative == 0 && bound.scale == 0;
  if (exact && v.bitwise == Answer::kDiffers && judged.outside.empty() && !judged.special_differs)
    judged.outside = "bits differ, and the values are exact";
  if (judged.special_differs) v.special = Answer::kDiffers;
  if (!judged.outside.empty()) v.tolerance = Answer::kDiffers;
  // The elements may be in another order, or whatever else no statistic sees.
  const bool unseen = judged.checksums_differ || bits_differ;
  if (judged.special_differs || !judged.outside.empty())
    v.statistics = Answer::kDiffers;
  else if (!unseen)
    v.statistics = Answer::kSame;
  comparison->evidence = Evidence::kStatistics;
  std::string note;
  if (judged.special_differs)
    note = fmt::format("statistics differ: {} and {}", SpecialText(of_a), SpecialText(of_b));
  else if (!judged.outside.empty())
    note = "statistics differ: " + judged.outside;
  else if (unseen)
    note = fmt::format("bits differ where statistics agree, {}", LessKeptText(a, b));
  else
    note =
        fmt::format("statistics agree{}, {}", equal ? "" : " within the bound", LessKeptText(a, b));
  comparison->notes.push_back(std::move(note));
}

}  // namespace

Status JudgeParts(const io::Record& a, const io::Record& b, const Bound& bound,
                  const MeasureRecords& measure, Comparison* comparison) {
  if (SameSlice(a, b)) {
    const io::Record left = io::SliceAsRecord(a), right = io::SliceAsRecord(b);
    TDUMP_ASSIGN_OR_RETURN(const Metrics metrics, measure(left, right, bound));
    JudgeMetrics(metrics, comparison);
    comparison->notes.push_back(a.payload   ? "of the slice that B kept"
                                : b.payload ? "of the slice that A kept"
                                            : "of the slice that was kept");
  } else if (a.sample && b.sample && a.sample->size() == b.sample->size()) {
    const io::Record left = SampleAsRecord(a), right = SampleAsRecord(b);
    TDUMP_ASSIGN_OR_RETURN(const Metrics metrics, Measure({&left, FromMemory(*a.sample)},
                                                          {&right, FromMemory(*b.sample)}, bound));
    JudgeMetrics(metrics, comparison);
    comparison->notes.push_back(fmt::format("of a sample of {} elements", left.sizes[0]));
  }
  return Status();
}

void JudgeStatistics(const Summarised& a, const Summarised& b, const Bound& bound,
                     const BoundRule* rule, Comparison* comparison) {
  Summary left = a.summary, right = b.summary;
  if (rule != nullptr) AllowSpecial(*rule, &left, &right);
  if (rule == nullptr || !rule->expect)
    return JudgeUnruled(a.record, b.record, left, right, bound, comparison);
  if (JudgeSummaries(left, right, bound).special_differs)
    comparison->verdict.special = Answer::kDiffers;
}

}  // namespace tdump::compare
