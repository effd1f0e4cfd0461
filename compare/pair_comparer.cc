#include "compare/pair_comparer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compare/dequantised.h"
#include "compare/element.h"
#include "compare/flushed.h"
#include "compare/leading.h"
#include "compare/made_parts.h"
#include "compare/roles.h"
#include "compare/same_bytes.h"
#include "compare/token_ids.h"
#include "compare/weight_gain.h"
#include "core/key.h"

namespace tdump::compare {
namespace {

constexpr unsigned kMostThreads = 64;  // on one pair

uint64_t OrderOf(const io::Record& record, bool output, const CallSpan* call) {
  if (call == nullptr) return std::max(record.call_begin, record.seen);
  if (!output) return call->begin;
  return call->end != 0 ? call->end : std::max(call->begin, record.seen);
}

// Those that were made from the values, or what the view knows.
std::optional<Summary> SummaryIn(const StepView& view, const io::Record& record) {
  return record.statistics ? SummaryOf(*record.statistics) : view.SummaryOf(record);
}

// How large a step is in a bound, relative to the rms, is known once that was measured.
std::optional<Bound> WithHalfStep(Bound bound, double half_step, const Metrics& m) {
  const double rms = std::min(m.rms_a, m.rms_b);
  if (half_step == 0 || m.outside() == 0 || !(rms > 0)) return std::nullopt;
  bound.scale += half_step / rms;
  return bound;
}

// Where bits are asked for: a part that is equal, or statistics that agree, are no proof of them.
void DropWhatProvesNoBits(const Kept& kept, Comparison* comparison) {
  Verdict& verdict = comparison->verdict;
  if (verdict.statistics == Answer::kSame) verdict.statistics = Answer::kNotJudged;
  const bool of_parts = comparison->evidence == Evidence::kPayload && !kept.payload;
  if (!of_parts || verdict.bitwise != Answer::kSame) return;
  verdict.bitwise = verdict.tolerance = verdict.special = Answer::kNotJudged;
  comparison->evidence = Evidence::kMeta;
  comparison->metrics = {};
}

// Whether the one is the other with fewer dimensions, without those of size 1 or flattened: of
// batches of sequences [2, 4] is another one than [4, 2], and [1, 8] than [8, 1].
bool IsShapedAlike(const io::Record& a, const io::Record& b) {
  const auto sizes_of = [](const io::Record& record) {
    std::vector<int64_t> sizes = record.sizes;
    std::erase(sizes, 1);
    return sizes;
  };
  return a.sizes.size() != b.sizes.size() &&
         (a.sizes.size() == 1 || b.sizes.size() == 1 || sizes_of(a) == sizes_of(b));
}

// Token ids and the like, in another dtype or, of the model's own, shape: what is looked up by them
// is the same. Of bits, which are of other dtypes or shapes, nothing is said.
void AcceptEqualIntegers(const StepView& view_a, const io::Record& a, const StepView& view_b,
                         const io::Record& b, bool root_input, Comparison* comparison) {
  Verdict& v = comparison->verdict;
  if (v.dtype != Answer::kDiffers && v.shape != Answer::kDiffers) return;
  if (v.shape == Answer::kDiffers && !(root_input && IsShapedAlike(a, b))) return;
  if (!AreEqualIntegers(view_a, a, view_b, b)) return;
  v.dtype_allowed = v.shape_allowed = true;
  v.tolerance = v.special = Answer::kSame;
  v.bitwise = Answer::kNotJudged;
  comparison->notes.push_back(fmt::format(
      "integer inputs of another dtype or shape are equal: {} [{}] and {} [{}]", a.dtype.view(),
      fmt::join(a.sizes, ", "), b.dtype.view(), fmt::join(b.sizes, ", ")));
}

}  // namespace

PairComparer::PairComparer(const PassDiffOptions& options, const PassDiff* diff, TwinViews twins,
                           PassJudge* judge)
    : options_(options), diff_(diff), twins_(twins), judge_(judge) {
  for (const auto& [begin, call] : diff->calls) roots_.Add(call.kind, call.root, begin);
}

template <class Work>
std::invoke_result_t<Work, Operand, Operand, unsigned> PairComparer::WithThreads(
    const io::Record& a, const io::Record& b, const Work& work) const {
  TDUMP_ASSIGN_OR_RETURN(ReadBytes left, diff_->a->Open(a));
  TDUMP_ASSIGN_OR_RETURN(ReadBytes right, diff_->b->Open(b));
  const bool large = a.payload && a.payload->logical_bytes >= kLargePair;
  const ThreadBudget::Share more(options_.budget, large ? kMostThreads : 0);
  return work(Operand{&a, std::move(left), [&] { return diff_->a->Open(a); }},
              Operand{&b, std::move(right), [&] { return diff_->b->Open(b); }}, 1 + more.count());
}

Status PairComparer::Compare(Outcome* outcome, bool* large) const {
  TDUMP_ASSIGN_OR_RETURN(io::Record a, diff_->a->Get(outcome->ids.a));
  TDUMP_ASSIGN_OR_RETURN(io::Record b, diff_->b->Get(outcome->ids.b));
  Place(b, outcome);
  if (assembled_) TDUMP_RETURN_IF_ERROR(Resolve(outcome));
  if (!outcome->unresolved->empty()) return {};
  if (twins_.ShowFor(a, b)) {
    TDUMP_ASSIGN_OR_RETURN(a, diff_->a->Get(outcome->ids.a));
    TDUMP_ASSIGN_OR_RETURN(b, diff_->b->Get(outcome->ids.b));
  }
  if (large != nullptr && IsRead(a, b, JudgeMeta(a, b)) && a.payload->logical_bytes >= kLargePair) {
    *large = true;
    return {};
  }
  TDUMP_ASSIGN_OR_RETURN(const io::Record left, Complete(*diff_->a, a, *diff_->b, b));
  TDUMP_ASSIGN_OR_RETURN(const io::Record right, Complete(*diff_->b, b, *diff_->a, a));
  return CompareParts(left, right, outcome);
}

Result<io::Record> PairComparer::Complete(const StepView& view, const io::Record& record,
                                          const StepView& other_view,
                                          const io::Record& other) const {
  const LackingParts lacking = PartsLacking(record, other, other_view.SummaryOf(other).has_value());
  if (!lacking.any()) return record;
  TDUMP_ASSIGN_OR_RETURN(const ReadBytes read, view.Open(record));
  TDUMP_ASSIGN_OR_RETURN(io::Record made, MakeParts(record, other, lacking, read));
  // Numbers that were put together are rounded in another order: that bits differ says nothing.
  const bool may_differ =
      assembled_ && !options_.require_bits && FormatOf(record.dtype).kind != NumberKind::kInteger;
  if (lacking.hash && may_differ && made.hash != other.hash) made.hash.reset();
  return made;
}

OpenSlice PairComparer::SliceOpener(const StepView& view, const io::Record& record) {
  return [&](io::Record* slice) -> Result<ReadBytes> {
    if (!record.payload) return view.Open(*slice);
    slice->strides = ContiguousStrides(slice->sizes);
    TDUMP_ASSIGN_OR_RETURN(ReadBytes read, view.Open(record));
    return ReadSlice(record, std::move(read));
  };
}

Status PairComparer::CompareParts(const io::Record& a, const io::Record& b,
                                  Outcome* outcome) const {
  outcome->comparison = JudgeMeta(a, b);
  Comparison& comparison = outcome->comparison;
  if (assembled_) DropStrideNotes(*outcome, &comparison.notes);
  if (a.dtype == b.dtype && RecordedDType(a) != RecordedDType(b))
    comparison.verdict.dtype = Answer::kDiffers;
  outcome->rule = judge_->RuleFor(b, outcome->role);
  const bool asks = outcome->rule && outcome->rule->expect && outcome->rule->expect->needs_values();
  const bool known_equal = comparison.verdict.bitwise == Answer::kSame && !asks;
  if (!known_equal) judge_->SetBound(a, b, outcome);
  const Bound& bound = outcome->local().bound;
  if (comparison.verdict.bitwise == Answer::kSame && options_.verify && KeptOf(a, b).payload)
    TDUMP_RETURN_IF_ERROR(VerifyEqual(a, b, &comparison));
  if (comparison.verdict.shape == Answer::kSame && !known_equal && KeptOf(a, b).payload) {
    TDUMP_ASSIGN_OR_RETURN(Metrics metrics, MeasureRecords(a, b, bound));
    if (const auto wider = WithHalfStep(bound, HalfStep(a, b), metrics)) {
      TDUMP_ASSIGN_OR_RETURN(metrics, MeasureRecords(a, b, *wider));
    }
    JudgeMetrics(metrics, &comparison);
    TDUMP_RETURN_IF_ERROR(AllowFlushed(a, b, bound, &comparison));
    TDUMP_RETURN_IF_ERROR(HoldToGain(a, b, outcome));
  } else if (comparison.verdict.shape == Answer::kSame && comparison.evidence == Evidence::kMeta) {
    TDUMP_RETURN_IF_ERROR(
        JudgeParts(a, SliceOpener(*diff_->a, a), b, SliceOpener(*diff_->b, b), bound, &comparison));
  }
  if (comparison.verdict.shape == Answer::kSame && comparison.verdict.Unproven())
    TDUMP_RETURN_IF_ERROR(JudgePartsBesideHash(a, b, bound, &comparison));
  const bool whole = comparison.evidence == Evidence::kPayload && KeptOf(a, b).payload;
  if (comparison.verdict.shape == Answer::kSame && !known_equal && !whole)
    JudgeByStatistics(a, b, bound, outcome);
  if (options_.require_bits) DropWhatProvesNoBits(KeptOf(a, b), &comparison);
  if (comparison.verdict.shape == Answer::kDiffers)
    TDUMP_RETURN_IF_ERROR(CompareLeading(a, b, outcome));
  if (outcome->role == Role::kInput && !options_.require_bits)
    AcceptEqualIntegers(*diff_->a, a, *diff_->b, b, outcome->root_input, &comparison);
  judge_->JudgePair(a, b, outcome);
  return {};
}

Status PairComparer::JudgePartsBesideHash(const io::Record& a, const io::Record& b,
                                          const Bound& bound, Comparison* comparison) const {
  Comparison judged = *comparison;
  TDUMP_RETURN_IF_ERROR(
      JudgeParts(a, SliceOpener(*diff_->a, a), b, SliceOpener(*diff_->b, b), bound, &judged));
  if (judged.verdict.Fails(false)) *comparison = std::move(judged);
  return {};
}

void PairComparer::JudgeByStatistics(const io::Record& a, const io::Record& b, const Bound& bound,
                                     Outcome* outcome) const {
  const auto left = SummaryIn(*diff_->a, a), right = SummaryIn(*diff_->b, b);
  if (left && right)
    JudgeStatistics({a, *left}, {b, *right}, bound, outcome->rule, &outcome->comparison);
}

Status PairComparer::AllowFlushed(const io::Record& a, const io::Record& b, const Bound& bound,
                                  Comparison* comparison) const {
  Verdict& verdict = comparison->verdict;
  Metrics metrics = comparison->metrics;
  if (bound.relative == 0 && bound.scale == 0) return {};  // exact
  if (verdict.special == Answer::kDiffers || !MayBeFlushed(metrics, a.dtype, b.dtype)) return {};
  TDUMP_ASSIGN_OR_RETURN(ReadBytes left, diff_->a->Open(a));
  TDUMP_ASSIGN_OR_RETURN(ReadBytes right, diff_->b->Open(b));
  TDUMP_ASSIGN_OR_RETURN(
      const Flushed flushed,
      JudgeFlushed({&a, std::move(left)}, {&b, std::move(right)}, bound, metrics));
  if (!flushed.within) return {};
  verdict.tolerance = Answer::kSame;
  metrics.within = metrics.elements;
  comparison->metrics = metrics;
  if (flushed.elements == 0) return {};
  comparison->notes.push_back(
      fmt::format("subnormal numbers are zero on one side: {} elements, {} of the other sign",
                  flushed.elements, flushed.signs));
  return {};
}

Status PairComparer::HoldToGain(const io::Record& a, const io::Record& b, Outcome* outcome) const {
  const std::optional<double> more = judge_->GainBesideRounding(a, b, *outcome);
  if (!more) return {};
  Comparison& comparison = outcome->comparison;
  const Metrics metrics = comparison.metrics;
  const NumberFormat format_a = FormatOf(RecordedDType(a)), format_b = FormatOf(RecordedDType(b));
  const Quantised* scales_a = twins_.a->ScalesOf(a.id);
  const Quantised* scales_b = twins_.b->ScalesOf(b.id);
  const auto are_known = [](const Quantised* scales, const io::Record& record) {
    return scales != nullptr || DequantisedText(record).empty();
  };
  const auto are_several = [](const Quantised* scales) {
    return scales != nullptr && scales->scales.size() > 1;
  };
  for (const Quantised* scales : {scales_a, scales_b})
    if (scales != nullptr && !scales->grid.IsCertain()) return {};
  std::optional<WrongGain> wrong;
  if (!are_known(scales_a, a) || !are_known(scales_b, b)) {
    wrong = FindLargeGain(metrics, format_a, format_b, HalfStep(a, b), *more);
  } else if (are_several(scales_a) || are_several(scales_b) || MayBeScaled(metrics, *more)) {
    TDUMP_ASSIGN_OR_RETURN(
        wrong, WithThreads(a, b, [&](const Operand& left, const Operand& right, unsigned threads) {
          return FindWrongGain({left, format_a, scales_a}, {right, format_b, scales_b}, *more,
                               threads);
        }));
  }
  if (!wrong) return {};
  comparison.verdict.tolerance = Answer::kDiffers;
  comparison.notes.push_back(TextOf(*wrong));
  return {};
}

Status PairComparer::CompareLeading(const io::Record& a, const io::Record& b,
                                    Outcome* outcome) const {
  if (!KeptOf(a, b).payload || !LeadingSizes(a, b)) return {};
  const bool aligned = options_.align && options_.align(NameOf(b));
  TDUMP_ASSIGN_OR_RETURN(const Metrics metrics,
                         MeasureLeading(*diff_->a, a, *diff_->b, b, outcome->local().bound));
  const std::string part = LeadingText(a, b);
  Comparison& comparison = outcome->comparison;
  if (aligned) {
    comparison.verdict.shape = Answer::kSame;
    JudgeMetrics(metrics, &comparison);
    comparison.notes.push_back(fmt::format("aligned by --align, {} compared", part));
  } else if (metrics.bits_equal == metrics.elements) {
    comparison.notes.push_back(
        fmt::format("{} identical; if the rest is padding, --align RE compares these", part));
  } else if (metrics.within == metrics.elements) {
    comparison.notes.push_back(
        fmt::format("{} within bounds; if the rest is padding, --align RE compares these", part));
  }
  return {};
}

void PairComparer::DropStrideNotes(const Outcome& outcome, Notes* notes) const {
  if (diff_->a->LayoutOf(outcome.ids.a).empty() && diff_->b->LayoutOf(outcome.ids.b).empty())
    return;
  Notes::List others = notes->Copy();
  std::erase_if(others, [](const std::string& note) { return note.starts_with("layout differs"); });
  *notes = Notes(std::move(others));
}

Status PairComparer::Resolve(Outcome* outcome) const {
  for (const auto& [view, id] :
       {std::pair(diff_->a.get(), outcome->ids.a), std::pair(diff_->b.get(), outcome->ids.b)}) {
    const Status state = view->StateOf(id);
    if (state.code() == StatusCode::kCorrupt || state.code() == StatusCode::kIo) return state;
    if (!state.ok()) outcome->unresolved = state.message();
  }
  return {};
}

bool PairComparer::IsRead(const io::Record& a, const io::Record& b,
                          const Comparison& comparison) const {
  const Verdict& verdict = comparison.verdict;
  return verdict.shape == Answer::kSame && KeptOf(a, b).payload &&
         (verdict.bitwise != Answer::kSame || options_.verify);
}

Status PairComparer::VerifyEqual(const io::Record& a, const io::Record& b,
                                 Comparison* comparison) const {
  TDUMP_ASSIGN_OR_RETURN(const bool same, WithThreads(a, b, [](const auto&... operands) {
                           return SameBytes(operands...);
                         }));
  if (!same) return Corrupt(ToText(b.key) + ": the values differ although their hashes are equal");
  comparison->notes.push_back("equal by hash, and read: equal");
  return {};
}

Result<Metrics> PairComparer::MeasureRecords(const io::Record& a, const io::Record& b,
                                             const Bound& bound) const {
  return WithThreads(a, b, [&](const Operand& left, const Operand& right, unsigned threads) {
    return Measure(left, right, bound, threads);
  });
}

bool PairComparer::IsModelInput(const io::Record& record) const {
  if (!roots_.IsData(record)) return false;
  const bool is_later = diff_->is_later_stage || record.key.chunk > 0;
  return !is_later || FormatOf(record.dtype).kind == NumberKind::kInteger;
}

void PairComparer::Place(const io::Record& b, Outcome* outcome) const {
  const auto call = diff_->calls.find(b.call_begin);
  const CallSpan* span = call == diff_->calls.end() ? nullptr : &call->second;
  outcome->role = b.key.role;
  const bool is_tap = span != nullptr && span->kind == OperatorKind::kTap;
  outcome->call = is_tap && span->parent != 0 ? span->parent : b.call_begin;
  outcome->order = OrderOf(b, outcome->is_output(), span);
  outcome->path = std::hash<std::string>()(b.key.root + "\n" + b.key.path);
  outcome->root_input = IsModelInput(b);
  outcome->of_optimizer = IsOfOptimizer(b.key);
}

}  // namespace tdump::compare
