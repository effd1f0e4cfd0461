#include "compare/pass_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "compare/pair_comparer.h"
#include "compare/pass_judge.h"
#include "compare/shared_pairs.h"
#include "compare/sparse_pairs.h"
#include "compare/stages.h"
#include "compare/text.h"
#include "compare/twin_view.h"
#include "core/add_thread.h"
#include "core/key.h"
#include "io/printed_name.h"

namespace tdump::compare {
namespace {

class PassComparer {
 public:
  PassComparer(const PassDiffOptions& options, bool parameters_given, TwinViews twins,
               PassDiff* diff)
      : options_(options),
        diff_(diff),
        twins_(twins),
        judge_(options, *diff->a, *diff->b, parameters_given),
        pairs_(options, diff, twins, &judge_) {}

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
        ShowTwins(*outcome);
        Keep(outcome);
      });
      if (!shared->status().ok()) return;
      all_ += again.size();
      CompareThese(again.size(), [&](size_t i) { return &outcomes[again[i]]; });
    }
    judge_.JudgeTogether(diff_);
    if (!assembled_) JudgeSparse(options_, diff_);
    for (Outcome& outcome : outcomes) Conclude(&outcome);
  }

 private:
  // `at`: of each number below `count` an outcome, or null.
  template <class At>
  void CompareThese(size_t count, const At& at) {
    large_.clear();
    CompareSmall(count, at);
    for (Outcome* outcome : large_) Finish(pairs_.Compare(outcome), outcome);
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
        const Status status = pairs_.Compare(outcome, &large);
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

  // Of what another process read.
  void ShowTwins(const Outcome& outcome) const {
    if (!MayBeOfTwins(outcome.comparison)) return;
    for (const auto& [view, id] : {std::pair(twins_.a, outcome.ids.a), {twins_.b, outcome.ids.b}}) {
      const io::Record* const known = view->Known(id);
      if (known == nullptr || !known->payload) view->Show(id);
    }
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

  // Hashes that differ leave the tolerance unproven, which fails; but for parameters, where the
  // operators' outputs tell.
  void Conclude(Outcome* outcome) const {
    if (!outcome->error->empty()) return;
    const Verdict& verdict = outcome->comparison.verdict;
    outcome->fails = verdict.Fails(options_.require_bits) ||
                     (verdict.Unproven() && !outcome->is_weight()) || !outcome->unresolved->empty();
    // In another precision all bits differ: of weights that says nothing where their values agree.
    const bool expected =
        options_.compute && outcome->is_weight() && verdict.tolerance == Answer::kSame;
    outcome->bits_differ = outcome->fails || (verdict.bitwise == Answer::kDiffers && !expected);
    if (outcome->bits_differ && options_.allow_failed) {
      const auto b = diff_->b->Get(outcome->ids.b);
      outcome->allowed = b.ok() && options_.allow_failed.Match(*b);
    }
    if (assembled_) PlaceRanks(outcome);
  }

  void PlaceRanks(Outcome* outcome) const {
    const std::vector<uint64_t> worst = outcome->comparison.metrics->worst.position;
    outcome->rank_a = diff_->a->RankAt(outcome->ids.a, worst);
    outcome->rank_b = diff_->b->RankAt(outcome->ids.b, worst);
    if (outcome->bits_differ && worst.empty()) PlaceByHash(outcome);
    if (outcome->unresolved->empty()) return;
    outcome->comparison.notes.push_back(outcome->unresolved);
    outcome->comparison.notes.MoveTo(diff_->spill.get());
  }

  // Of shards of which the hash alone is known.
  void PlaceByHash(Outcome* outcome) const {
    const std::vector<int32_t> of_a = diff_->a->RanksApart(outcome->ids.a);
    const std::vector<int32_t> of_b = diff_->b->RanksApart(outcome->ids.b);
    if (of_a.size() == 1) outcome->rank_a = of_a.front();
    if (of_b.size() == 1) outcome->rank_b = of_b.front();
    if (of_b.size() <= 1) return;
    const auto record = diff_->b->Get(outcome->ids.b);
    outcome->comparison.notes.push_back(fmt::format("{}{} of {}", kShardsDiffer, RanksText(of_b),
                                                    record.ok() ? ToText(record->key) : ""));
    outcome->comparison.notes.MoveTo(diff_->spill.get());
  }

  const PassDiffOptions& options_;
  PassDiff* diff_;
  const TwinViews twins_;
  PassJudge judge_;
  const PairComparer pairs_;
  const bool assembled_ = diff_->a->is_assembled() || diff_->b->is_assembled();
  std::vector<Outcome*> large_;
  std::atomic<size_t> done_{0};
  size_t all_ = 0, shown_ = 0;
  std::mutex showing_;
};

// Before the note that says why a tensor could not be put together, which is the last.
void NoteMade(const std::string& how, SpillFile* spill, Outcome* outcome) {
  Notes::List notes = outcome->comparison.notes.Copy();
  const bool says_why = !outcome->unresolved->empty() && !notes.empty();
  notes.insert(notes.end() - (says_why ? 1 : 0), how);
  outcome->comparison.notes = Notes(notes);
  outcome->comparison.notes.MoveTo(spill);
}

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

std::string NameOf(const io::Record& record) { return io::PrintedName(record); }

WantRecord Wanted(const PassDiffOptions& options) {
  return [&options](const io::Record& record) {
    return !options.select || options.select(NameOf(record));
  };
}

PassDiff DiffViews(OpenedPair opened, const PassDiffOptions& options) {
  PassDiff diff;
  auto a = std::make_unique<TwinView>(std::move(opened.a));
  auto b = std::make_unique<TwinView>(std::move(opened.b));
  const TwinViews twins = {a.get(), b.get()};
  diff.a = std::move(a);
  diff.b = std::move(b);
  diff.notes = std::move(opened.notes);
  diff.is_later_stage = opened.is_later_stage;
  AddDamage(*diff.a, &diff.damage);
  AddDamage(*diff.b, &diff.damage);
  LoadCalls(*diff.b, &diff);
  RecordPairing& pairing = opened.pairing;
  for (const Status& status : pairing.errors) diff.damage.push_back({"", 0, status.message()});
  diff.only_a = std::move(pairing.only_a);
  diff.only_b = std::move(pairing.only_b);
  diff.lost_a = std::move(opened.lost_a);
  diff.lost_b = std::move(opened.lost_b);
  diff.rank_lists = std::move(opened.rank_lists);
  diff.killed_a = std::move(opened.killed_a);
  diff.killed_b = std::move(opened.killed_b);
  diff.spill = std::make_unique<SpillFile>(options.spill);
  pairing.pairs.shrink_to_fit();
  pairing.key_hashes.shrink_to_fit();
  diff.outcomes.resize(pairing.pairs.size());
  for (size_t i = 0; i < pairing.pairs.size(); ++i) {
    diff.outcomes[i].ids = pairing.pairs[i];
    diff.outcomes[i].key_hash = pairing.key_hashes[i];
    diff.structure += pairing.key_hashes[i];
  }
  const std::vector<PairsMade> made = std::move(pairing.made);
  pairing = {};
  PassComparer(options, opened.parameters_given, twins, &diff).CompareAll();
  if (options.shared != nullptr && !options.shared->is_first()) return diff;
  for (const PairsMade& pairs : made) {
    for (size_t i = 0; i < pairs.count; ++i)
      NoteMade(pairs.how, diff.spill.get(), &diff.outcomes[pairs.first + i]);
  }
  for (const Outcome& outcome : diff.outcomes) {
    if (!outcome.error->empty()) diff.damage.push_back({"", 0, outcome.error});
  }
  if (!diff.spill->status().ok()) diff.damage.push_back({"", 0, diff.spill->status().message()});
  return diff;
}

Result<PassDiff> DiffPass(const RunSide& a, const RunSide& b, const PassPair& pair,
                          const PassDiffOptions& options) {
  TDUMP_ASSIGN_OR_RETURN(OpenedPair opened, OpenPasses(a, b, pair, Wanted(options)));
  opened.is_later_stage = StageOf(a, b, pair).value_or(0) > 0;
  return DiffViews(std::move(opened), options);
}

}  // namespace tdump::compare
