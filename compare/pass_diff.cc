#include "compare/pass_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <type_traits>

#include "compare/dequantised.h"
#include "compare/element.h"
#include "compare/flushed.h"
#include "compare/leading.h"
#include "compare/made_parts.h"
#include "compare/parts.h"
#include "compare/pass_judge.h"
#include "compare/roles.h"
#include "compare/same_bytes.h"
#include "compare/shared_pairs.h"
#include "core/add_thread.h"
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

class PassComparer {
 public:
  PassComparer(const PassDiffOptions& options, PassDiff* diff)
      : options_(options), diff_(diff), judge_(options, *diff->a, *diff->b) {}

  void CompareAll() {
    std::vector<Outcome>& outcomes = diff_->outcomes;
    SharedPairs* const shared = options_.shared;
    if (shared == nullptr) {
      all_ = outcomes.size();
      CompareThese(outcomes.size(), [&](size_t i) { return &outcomes[i]; });
    } else {
      shared->Deal(*diff_);
      all_ = shared->own();
      CompareThese(outcomes.size(),
                   [&](size_t i) { return shared->IsOwn(i) ? &outcomes[i] : nullptr; });
      if (!shared->is_first()) return shared->Send(diff_);
      const std::vector<size_t> again = shared->Receive(diff_, [this](Outcome* outcome) {
        judge_.Adopt(outcome);
        Keep(outcome);
      });
      if (!shared->status().ok()) return;
      all_ += again.size();
      CompareThese(again.size(), [&](size_t i) { return &outcomes[again[i]]; });
    }
    judge_.JudgeTogether(diff_);
    for (Outcome& outcome : outcomes) Conclude(&outcome);
  }

 private:
  // `at`: of each number below `count` an outcome, or null.
  template <class At>
  void CompareThese(size_t count, const At& at) {
    large_.clear();
    CompareSmall(count, at);
    for (Outcome* outcome : large_) Finish(Compare(outcome), outcome);
  }

  // Many pairs at a time; those that are worth several threads each are left to the end.
  template <class At>
  void CompareSmall(size_t count, const At& at) {
    std::atomic<size_t> next{0};
    std::mutex mutex;
    const auto work = [&] {
      for (size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
        Outcome* const outcome = at(i);
        if (outcome == nullptr) continue;
        bool large = false;
        const Status status = Compare(outcome, &large);
        if (!large) {
          Finish(status, outcome);
          continue;
        }
        const std::lock_guard lock(mutex);
        large_.push_back(outcome);
      }
    };
    const size_t useful = count / 4;
    const ThreadBudget::Share more(options_.budget, useful > 1 ? useful - 1 : 0);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < more.count() && AddThread(&threads, work);) ++i;
    work();
    for (std::thread& thread : threads) thread.join();
  }

  // What there may be of every pair, and is not small.
  void Keep(Outcome* outcome) const {
    outcome->comparison.metrics.MoveTo(diff_->spill.get());
    outcome->comparison.notes.MoveTo(diff_->spill.get());
  }

  void Finish(const Status& status, Outcome* outcome) {
    ShowDone();
    if (status.ok()) return Keep(outcome);
    outcome->error = status.message();
    outcome->comparison = {};  // damage is no difference: nothing is said of the values
  }

  // A thread that finds another one telling goes on, but for the last pair's.
  void ShowDone() {
    const size_t done = ++done_;
    if (!options_.on_pairs) return;
    std::unique_lock lock(showing_, std::try_to_lock);
    if (!lock.owns_lock() && done == all_) lock.lock();
    if (lock.owns_lock() && done > shown_) options_.on_pairs(shown_ = done, all_);
  }

  // `large`: where given, told whether the pair was left for later.
  Status Compare(Outcome* outcome, bool* large = nullptr) {
    TDUMP_ASSIGN_OR_RETURN(const io::Record a, diff_->a->Get(outcome->ids.a));
    TDUMP_ASSIGN_OR_RETURN(const io::Record b, diff_->b->Get(outcome->ids.b));
    Place(b, outcome);
    if (assembled_) TDUMP_RETURN_IF_ERROR(Resolve(outcome));
    if (!outcome->unresolved->empty()) return {};
    if (large != nullptr && IsRead(a, b, JudgeMeta(a, b)) &&
        a.payload->logical_bytes >= kLargePair) {
      *large = true;
      return {};
    }
    TDUMP_ASSIGN_OR_RETURN(const io::Record left, Complete(*diff_->a, a, *diff_->b, b));
    TDUMP_ASSIGN_OR_RETURN(const io::Record right, Complete(*diff_->b, b, *diff_->a, a));
    return CompareParts(left, right, outcome);
  }

  // With what the other side, which has no values, kept of them.
  Result<io::Record> Complete(const StepView& view, const io::Record& record,
                              const StepView& other_view, const io::Record& other) const {
    const LackingParts lacking =
        PartsLacking(record, other, other_view.SummaryOf(other).has_value());
    if (!lacking.any()) return record;
    TDUMP_ASSIGN_OR_RETURN(const ReadBytes read, view.Open(record));
    TDUMP_ASSIGN_OR_RETURN(io::Record made, MakeParts(record, other, lacking, read));
    // Numbers that were put together are rounded in another order: that bits differ says nothing.
    const bool may_differ =
        assembled_ && !options_.require_bits && FormatOf(record.dtype).kind != NumberKind::kInteger;
    if (lacking.hash && may_differ && made.hash != other.hash) made.hash.reset();
    return made;
  }

  // The slice of a record whose whole payload is there is read from that.
  static OpenSlice SliceOpener(const StepView& view, const io::Record& record) {
    return [&](io::Record* slice) -> Result<ReadBytes> {
      if (!record.payload) return view.Open(*slice);
      slice->strides = ContiguousStrides(slice->sizes);
      TDUMP_ASSIGN_OR_RETURN(ReadBytes read, view.Open(record));
      return ReadSlice(record, std::move(read));
    };
  }

  Status CompareParts(const io::Record& a, const io::Record& b, Outcome* outcome) {
    outcome->comparison = JudgeMeta(a, b);
    Comparison& comparison = outcome->comparison;
    if (assembled_) DropStrideNotes(*outcome, &comparison.notes);
    if (a.dtype == b.dtype && RecordedDType(a) != RecordedDType(b))
      comparison.verdict.dtype = Answer::kDiffers;
    outcome->rule = judge_.RuleFor(b, outcome->role);
    const bool asks =
        outcome->rule && outcome->rule->expect && outcome->rule->expect->needs_values();
    const bool known_equal = comparison.verdict.bitwise == Answer::kSame && !asks;
    if (!known_equal) judge_.SetBound(a, b, outcome);
    const Bound& bound = outcome->local().bound;
    if (comparison.verdict.bitwise == Answer::kSame && options_.verify && KeptOf(a, b).payload)
      TDUMP_RETURN_IF_ERROR(VerifyEqual(a, b, &comparison));
    if (comparison.verdict.shape == Answer::kSame && !known_equal && KeptOf(a, b).payload) {
      TDUMP_ASSIGN_OR_RETURN(const Metrics metrics, MeasureRecords(a, b, bound));
      JudgeMetrics(metrics, &comparison);
      TDUMP_RETURN_IF_ERROR(AllowFlushed(a, b, bound, &comparison));
    } else if (comparison.verdict.shape == Answer::kSame &&
               comparison.evidence == Evidence::kMeta) {
      TDUMP_RETURN_IF_ERROR(JudgeParts(a, SliceOpener(*diff_->a, a), b, SliceOpener(*diff_->b, b),
                                       bound, &comparison));
    }
    if (comparison.verdict.shape == Answer::kSame && comparison.verdict.Unproven())
      TDUMP_RETURN_IF_ERROR(JudgePartsBesideHash(a, b, bound, &comparison));
    const bool whole = comparison.evidence == Evidence::kPayload && KeptOf(a, b).payload;
    if (comparison.verdict.shape == Answer::kSame && !known_equal && !whole)
      JudgeByStatistics(a, b, bound, outcome);
    if (comparison.verdict.shape == Answer::kDiffers)
      TDUMP_RETURN_IF_ERROR(CompareLeading(a, b, outcome));
    judge_.JudgePair(a, b, outcome);
    return {};
  }

  // Hashes that differ say that something differs; a part that agrees does not excuse it.
  Status JudgePartsBesideHash(const io::Record& a, const io::Record& b, const Bound& bound,
                              Comparison* comparison) const {
    Comparison judged = *comparison;
    TDUMP_RETURN_IF_ERROR(
        JudgeParts(a, SliceOpener(*diff_->a, a), b, SliceOpener(*diff_->b, b), bound, &judged));
    if (judged.verdict.Fails(false)) *comparison = std::move(judged);
    return {};
  }

  void JudgeByStatistics(const io::Record& a, const io::Record& b, const Bound& bound,
                         Outcome* outcome) const {
    const auto left = SummaryIn(*diff_->a, a), right = SummaryIn(*diff_->b, b);
    if (left && right)
      JudgeStatistics({a, *left}, {b, *right}, bound, outcome->rule, &outcome->comparison);
  }

  // Numbers that one side may have taken for zero: told also where the bound, which grows with the
  // other elements, is wide enough for them.
  Status AllowFlushed(const io::Record& a, const io::Record& b, const Bound& bound,
                      Comparison* comparison) const {
    Verdict& verdict = comparison->verdict;
    Metrics metrics = comparison->metrics;
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

  // Where one side is padded: the part that both have decides if the user says so, else it is a
  // hint.
  Status CompareLeading(const io::Record& a, const io::Record& b, Outcome* outcome) const {
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

  // Strides of a tensor that is put together say nothing.
  void DropStrideNotes(const Outcome& outcome, Notes* notes) const {
    if (diff_->a->LayoutOf(outcome.ids.a).empty() && diff_->b->LayoutOf(outcome.ids.b).empty())
      return;
    Notes::List others = notes->Copy();
    std::erase_if(others,
                  [](const std::string& note) { return note.starts_with("layout differs"); });
    *notes = Notes(std::move(others));
  }

  // Whether both tensors could be put together. Error: not for damage.
  Status Resolve(Outcome* outcome) const {
    for (const auto& [view, id] :
         {std::pair(diff_->a.get(), outcome->ids.a), std::pair(diff_->b.get(), outcome->ids.b)}) {
      const Status state = view->StateOf(id);
      if (state.code() == StatusCode::kCorrupt || state.code() == StatusCode::kIo) return state;
      if (!state.ok()) outcome->unresolved = state.message();
    }
    return {};
  }

  // Whether the whole payloads are.
  bool IsRead(const io::Record& a, const io::Record& b, const Comparison& comparison) const {
    const Verdict& verdict = comparison.verdict;
    return verdict.shape == Answer::kSame && KeptOf(a, b).payload &&
           (verdict.bitwise != Answer::kSame || options_.verify);
  }

  // Reads what the hashes say is equal.
  Status VerifyEqual(const io::Record& a, const io::Record& b, Comparison* comparison) const {
    TDUMP_ASSIGN_OR_RETURN(const bool same, WithThreads(a, b, [](const auto&... operands) {
                             return SameBytes(operands...);
                           }));
    if (!same)
      return Corrupt(ToText(b.key) + ": the values differ although their hashes are equal");
    comparison->notes.push_back("equal by hash, and read: equal");
    return {};
  }

  Result<Metrics> MeasureRecords(const io::Record& a, const io::Record& b,
                                 const Bound& bound) const {
    return WithThreads(a, b, [&](const Operand& left, const Operand& right, unsigned threads) {
      return Measure(left, right, bound, threads);
    });
  }

  // Calls work(Operand a, Operand b, threads); more than one thread for large pairs only.
  template <class Work>
  std::invoke_result_t<Work, Operand, Operand, unsigned> WithThreads(const io::Record& a,
                                                                     const io::Record& b,
                                                                     const Work& work) const {
    TDUMP_ASSIGN_OR_RETURN(ReadBytes left, diff_->a->Open(a));
    TDUMP_ASSIGN_OR_RETURN(ReadBytes right, diff_->b->Open(b));
    const bool large = a.payload && a.payload->logical_bytes >= kLargePair;
    const ThreadBudget::Share more(options_.budget, large ? kMostThreads : 0);
    return work(Operand{&a, std::move(left), [&] { return diff_->a->Open(a); }},
                Operand{&b, std::move(right), [&] { return diff_->b->Open(b); }}, 1 + more.count());
  }

  void Place(const io::Record& b, Outcome* outcome) const {
    const auto call = diff_->calls.find(b.call_begin);
    const CallSpan* span = call == diff_->calls.end() ? nullptr : &call->second;
    outcome->role = b.key.role;
    const bool is_tap = span != nullptr && span->kind == OperatorKind::kTap;
    outcome->call = is_tap && span->parent != 0 ? span->parent : b.call_begin;
    outcome->order = OrderOf(b, outcome->is_output(), span);
    outcome->path = std::hash<std::string>()(b.key.root + "\n" + b.key.path);
    outcome->root_input = IsRootInput(b.key);
    outcome->of_optimizer = IsOfOptimizer(b.key);
  }

  // Hashes that differ leave the tolerance unproven, which fails; but for parameters, where the
  // operators' outputs tell.
  void Conclude(Outcome* outcome) const {
    if (!outcome->error->empty()) return;
    Verdict& verdict = outcome->comparison.verdict;
    // Equal statistics are no proof of equal bits.
    if (options_.require_bits && verdict.statistics == Answer::kSame)
      verdict.statistics = Answer::kNotJudged;
    outcome->fails = verdict.Fails(options_.require_bits) ||
                     (verdict.Unproven() && !outcome->is_weight()) || !outcome->unresolved->empty();
    // In another precision all bits differ: of weights that says nothing where their values agree.
    const bool expected =
        options_.compute && outcome->is_weight() && verdict.tolerance == Answer::kSame;
    outcome->bits_differ = outcome->fails || (verdict.bitwise == Answer::kDiffers && !expected);
    if (outcome->fails && options_.allow_failed) {
      const auto b = diff_->b->Get(outcome->ids.b);
      outcome->allowed = b.ok() && options_.allow_failed.Match(*b);
    }
    if (assembled_) PlaceRanks(outcome);
  }

  void PlaceRanks(Outcome* outcome) const {
    const std::vector<uint64_t> worst = outcome->comparison.metrics->worst.position;
    outcome->rank_a = diff_->a->RankAt(outcome->ids.a, worst);
    outcome->rank_b = diff_->b->RankAt(outcome->ids.b, worst);
    if (outcome->unresolved->empty()) return;
    outcome->comparison.notes.push_back(outcome->unresolved);
    outcome->comparison.notes.MoveTo(diff_->spill.get());
  }

  const PassDiffOptions& options_;
  PassDiff* diff_;
  PassJudge judge_;
  const bool assembled_ = diff_->a->is_assembled() || diff_->b->is_assembled();
  std::vector<Outcome*> large_;
  std::atomic<size_t> done_{0};
  size_t all_ = 0, shown_ = 0;
  std::mutex showing_;
};

void AddDamage(const StepView& view, std::vector<io::Damage>* damage) {
  damage->insert(damage->end(), view.damage().begin(), view.damage().end());
}

void LoadCalls(const StepView& view, PassDiff* diff) {
  const Status status = view.ForEachCall([&](const io::CallRecord& record) {
    diff->calls[record.call.begin] = {.begin = record.call.begin,
                                      .end = record.call.end,
                                      .parent = record.call.parent,
                                      .kind = record.kind,
                                      .root = record.root,
                                      .path = record.path,
                                      .op = record.op};
    return true;
  });
  if (!status.ok()) diff->damage.push_back({"", 0, status.message()});
}

}  // namespace

const Rounding& RoundingOf(const std::shared_ptr<const Rounding>& rounding) {
  static const Rounding none;
  return rounding ? *rounding : none;
}

std::string NameOf(const io::Record& record) {
  const Key& key = record.key;
  if (key.role != Role::kParam && key.role != Role::kState)
    return PlainName(key.root, key.path, key.op);
  if (key.path == "." && key.root.empty()) return key.arg;
  return PlainName(key.root, key.path, key.op) + "." + key.arg;
}

WantRecord Wanted(const PassDiffOptions& options) {
  return [&options](const io::Record& record) {
    return !options.select || options.select(NameOf(record));
  };
}

PassDiff DiffViews(OpenedPair opened, const PassDiffOptions& options) {
  PassDiff diff;
  diff.a = std::move(opened.a);
  diff.b = std::move(opened.b);
  diff.notes = std::move(opened.notes);
  AddDamage(*diff.a, &diff.damage);
  AddDamage(*diff.b, &diff.damage);
  LoadCalls(*diff.b, &diff);
  RecordPairing& pairing = opened.pairing;
  for (const Status& status : pairing.errors) diff.damage.push_back({"", 0, status.message()});
  diff.only_a = std::move(pairing.only_a);
  diff.only_b = std::move(pairing.only_b);
  diff.spill = std::make_unique<SpillFile>(options.spill);
  pairing.pairs.shrink_to_fit();
  pairing.key_hashes.shrink_to_fit();
  diff.outcomes.resize(pairing.pairs.size());
  for (size_t i = 0; i < pairing.pairs.size(); ++i) {
    diff.outcomes[i].ids = pairing.pairs[i];
    diff.outcomes[i].key_hash = pairing.key_hashes[i];
    diff.structure += pairing.key_hashes[i];
  }
  pairing = {};
  PassComparer(options, &diff).CompareAll();
  if (options.shared != nullptr && !options.shared->is_first()) return diff;
  for (const Outcome& outcome : diff.outcomes) {
    if (!outcome.error->empty()) diff.damage.push_back({"", 0, outcome.error});
  }
  if (!diff.spill->status().ok()) diff.damage.push_back({"", 0, diff.spill->status().message()});
  return diff;
}

Result<PassDiff> DiffPass(const RunSide& a, const RunSide& b, const PassPair& pair,
                          const PassDiffOptions& options) {
  TDUMP_ASSIGN_OR_RETURN(OpenedPair opened, OpenPasses(a, b, pair, Wanted(options)));
  return DiffViews(std::move(opened), options);
}

}  // namespace tdump::compare
