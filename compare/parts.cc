#include "compare/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compare/element.h"
#include "compare/flushed.h"
#include "compare/made_parts.h"
#include "compare/payload_view.h"
#include "io/value_parts.h"

namespace tdump::compare {
namespace {

// The sampled elements as a tensor of one dimension.
io::Record SampleAsRecord(const io::Record& record) {
  io::Record flat = record;
  flat.sizes = {static_cast<int64_t>(SampleCount(record))};
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
  const bool nan = rule.judges_nan(), inf = rule.judges_inf();
  const bool parted = (nan && a->nan != b->nan) || (inf && a->positive_inf != b->positive_inf) ||
                      (inf && a->negative_inf != b->negative_inf);
  for (Summary* summary : {a, b}) {
    if (parted) summary->min = summary->max = summary->mean = summary->mean_abs = summary->rms = {};
    if (nan) summary->nan.reset();
    if (inf) summary->positive_inf.reset();
    if (inf) summary->negative_inf.reset();
  }
}

bool ValuesFail(const Verdict& verdict) {
  return verdict.tolerance == Answer::kDiffers || verdict.special == Answer::kDiffers;
}

// Of two parts of the same tensors the one that is farther apart stands for both.
bool IsFarther(const Metrics& one, const Metrics& other) {
  const uint64_t special = one.nan_mismatch + one.inf_mismatch;
  const uint64_t special_other = other.nan_mismatch + other.inf_mismatch;
  if (special != special_other) return special > special_other;
  return one.max_abs > other.max_abs;
}

// Adds to what is known of another part.
Status JudgePart(const Operand& a, const Operand& b, const Bound& bound, std::string note,
                 Comparison* comparison) {
  TDUMP_ASSIGN_OR_RETURN(Metrics metrics, Measure(a, b, bound));
  if (metrics.nan_mismatch + metrics.inf_mismatch == 0 &&
      MayBeFlushed(metrics, a.record->dtype, b.record->dtype)) {
    TDUMP_ASSIGN_OR_RETURN(const Flushed flushed, JudgeFlushed(a, b, bound, metrics));
    if (flushed.within) metrics.within = metrics.elements;
  }
  const bool known = comparison->evidence == Evidence::kPayload;
  const bool bits_differ = comparison->verdict.bitwise == Answer::kDiffers;
  const bool failed = ValuesFail(comparison->verdict);
  if (!known || IsFarther(metrics, comparison->metrics)) JudgeMetrics(metrics, comparison);
  if (bits_differ || metrics.bits_equal < metrics.elements)
    comparison->verdict.bitwise = Answer::kDiffers;
  // Of one that fails no other one says that it passes.
  if (known && (failed || metrics.within < metrics.elements))
    comparison->verdict.tolerance = Answer::kDiffers;
  comparison->notes.push_back(std::move(note));
  return {};
}

std::string_view LessKeptText(const io::Record& a, const io::Record& b) {
  if (a.payload) return "B kept no values";
  return b.payload ? "A kept no values" : "values were not kept";
}

void JudgeSpecial(const Summary& a, const Summary& b, Comparison* comparison) {
  comparison->verdict.special = Answer::kDiffers;
  comparison->evidence = Evidence::kStatistics;
  comparison->notes.push_back(
      fmt::format("statistics differ: {} and {}", SpecialText(a), SpecialText(b)));
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

Status JudgeParts(const io::Record& a, const OpenSlice& open_a, const io::Record& b,
                  const OpenSlice& open_b, const Bound& bound, Comparison* comparison) {
  const bool same_slice = SameSlice(a, b);
  if (same_slice && (io::SliceAsRecord(a).numel() > 0 || a.numel() == 0)) {
    io::Record left = io::SliceAsRecord(a), right = io::SliceAsRecord(b);
    TDUMP_ASSIGN_OR_RETURN(ReadBytes of_a, open_a(&left));
    TDUMP_ASSIGN_OR_RETURN(ReadBytes of_b, open_b(&right));
    const char* note = a.payload   ? "of the slice that B kept"
                       : b.payload ? "of the slice that A kept"
                                   : "of the slice that was kept";
    TDUMP_RETURN_IF_ERROR(JudgePart({&left, std::move(of_a), {}}, {&right, std::move(of_b), {}},
                                    bound, note, comparison));
  }
  const uint64_t sampled = SampleCount(a);
  if (sampled == 0 || sampled != SampleCount(b)) return Status();
  const io::Record left = SampleAsRecord(a), right = SampleAsRecord(b);
  return JudgePart({&left, FromMemory(*a.sample), {}}, {&right, FromMemory(*b.sample), {}}, bound,
                   fmt::format("of a sample of {} elements", sampled), comparison);
}

void JudgeStatistics(const Summarised& a, const Summarised& b, const Bound& bound,
                     const BoundRule* rule, Comparison* comparison) {
  Summary left = a.summary, right = b.summary;
  if (rule != nullptr) AllowSpecial(*rule, &left, &right);
  // What a part of the values shows stands, unless the whole contradicts it.
  const bool measured = comparison->evidence == Evidence::kPayload;
  Comparison judged;
  judged.verdict.shape = comparison->verdict.shape;
  judged.verdict.dtype = comparison->verdict.dtype;
  if (!measured) judged = *comparison;
  if (rule == nullptr || !rule->expect)
    JudgeUnruled(a.record, b.record, left, right, bound, &judged);
  else if (JudgeSummaries(left, right, bound).special_differs)
    JudgeSpecial(left, right, &judged);
  if (!measured) {
    *comparison = std::move(judged);
    return;
  }
  if (judged.verdict.bitwise == Answer::kDiffers) comparison->verdict.bitwise = Answer::kDiffers;
  if (!ValuesFail(judged.verdict)) return;
  for (const std::string& note : comparison->notes) judged.notes.push_back(note);
  judged.verdict.bitwise = comparison->verdict.bitwise;
  *comparison = std::move(judged);
}

}  // namespace tdump::compare
