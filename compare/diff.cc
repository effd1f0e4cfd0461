#include "compare/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "compare/damage_list.h"
#include "compare/diff_progress.h"
#include "compare/first_weights.h"
#include "compare/job_diff.h"
#include "compare/later_steps.h"
#include "compare/lost_passes.h"
#include "compare/main_dtype.h"
#include "compare/note_list.h"
#include "compare/origin_search.h"
#include "compare/parting.h"
#include "compare/pass_results.h"
#include "compare/recomputed.h"
#include "compare/shared_pairs.h"
#include "compare/signature.h"
#include "compare/stage_hint.h"
#include "compare/stages.h"
#include "compare/step_align.h"
#include "compare/steps_judged.h"
#include "compare/tally.h"
#include "compare/text.h"
#include "compare/unpaired.h"
#include "compare/weight_list.h"
#include "core/key.h"

namespace tdump::compare {
namespace {

// Replicas of one run lie otherwise than each other, and are compared one by one.
bool PutsRanksTogether(const RunSide& a, const RunSide& b, const DiffOptions& options) {
  if (options.job) return true;
  if (a.rank() || b.rank() || !options.across.empty()) return false;
  return a.world() != b.world() || LieOtherwise(a, b);
}

class Differ {
 public:
  Differ(const RunSide& a, const RunSide& b, const DiffOptions& options)
      : a_(a),
        b_(b),
        options_(options),
        pairing_options_(options.pairing),
        origins_(a, b, options, &report_),
        weights_(&origins_.finder(), &report_),
        tally_(&options, &report_),
        damage_(&pairing_options_, &report_),
        notes_(&options, &report_),
        unpaired_(&options, &report_),
        progress_(options.on_progress) {}

  Result<DiffReport> Run() {
    report_.across = options_.across;
    report_.lists_all = options_.top == ~size_t{0};
    if (std::string why = WhyNotSameStage(a_, b_, options_.job && options_.job->map);
        !why.empty()) {
      if (!options_.pass.select) {
        report_.why_not = std::move(why);
        return std::move(report_);
      }
      report_.notes.push_back(std::move(why));  // the user says what is the same
    }
    const Status aligned = pairing_options_.align_steps ? AlignSteps() : Status();
    if (options_.across.empty() && CountOtherwise(a_, b_, pairing_options_))
      (void)AlignSteps();  // where nothing says which, what to try is said below
    if (PutsRanksTogether(a_, b_, options_)) return RunJob(aligned);
    TDUMP_RETURN_IF_ERROR(aligned);
    TDUMP_ASSIGN_OR_RETURN(const PassPairing pairing, PairPasses(a_, b_, pairing_options_));
    const FirstWeights first(a_, b_);
    const DiffPair diff_pair = [&](const PassPair& pair, const PassDiffOptions& options) {
      Result<PassDiff> diff = DiffPass(a_, b_, pair, options);
      if (!diff.ok()) return diff;
      first.LeaveOut(pair, &*diff);
      const bool named = a_.is_of_named_records() || b_.is_of_named_records();
      if (options_.across.empty() && !named) LeaveOutRecomputed(pair, &*diff);
      return diff;
    };
    return RunPairs(a_, b_, pairing, diff_pair);
  }

 private:
  using DiffPair = PassResults::DiffPair;

  Status AlignSteps() {
    TDUMP_ASSIGN_OR_RETURN(StepAlignment found, AlignByInputs(a_, b_, pairing_options_));
    pairing_options_.step_pairs = std::move(found.pairs);
    report_.steps_aligned = true;
    report_.notes.insert(report_.notes.end(), found.notes.begin(), found.notes.end());
    moved_steps_ = std::move(found.moved);
    if (found.parted) PartAt(*found.parted);
    return {};
  }

  void PartAt(uint64_t step) {
    report_.inputs.judging_stopped = true;
    report_.inputs.first_differing_step = step;
  }

  // The ranks of each side put together, step by step. `aligned`: whether steps could be.
  Result<DiffReport> RunJob(const Status& aligned) {
    const JobOptions options = options_.job.value_or(JobOptions{});
    Result<JobSides> sides =
        aligned.ok() ? OpenJobSides(a_, b_, pairing_options_, options) : Result<JobSides>(aligned);
    Team* const team = options_.team;
    std::optional<SharedPairs> shared;
    if (team != nullptr && team->size() > 1) {
      const auto steps = sides.ok() ? static_cast<int64_t>(sides->pairing.pairs.size()) : -1;
      TDUMP_ASSIGN_OR_RETURN(const bool agree, SharedPairs::AllAgree(team, steps));
      if (!agree && team->rank() != 0) return std::move(report_);  // process 0 is alone
      if (agree) shared.emplace(team, options_.pass.rules.get());
    }
    TDUMP_RETURN_IF_ERROR(sides.status());
    job_.emplace(*std::move(sides), options, std::move(shared), &progress_,
                 [this](const OpenedPair& opened) { return CheckOpened(opened); });
    TellOfJob();
    const FirstWeights first(job_->a(), job_->b());
    const DiffPair diff_pair = [&](const PassPair& pair, const PassDiffOptions& pass_options) {
      Result<PassDiff> diff = job_->Diff(pair, pass_options);
      if (diff.ok() && job_->is_first()) first.LeaveOut(pair, &*diff);
      return diff;
    };
    TDUMP_ASSIGN_OR_RETURN(DiffReport report,
                           RunPairs(job_->a(), job_->b(), job_->pairing(), diff_pair));
    if (std::string note = job_->StageNote(); report.overall == Overall::kDiffers && !note.empty())
      report.notes.push_back(std::move(note));
    return report;
  }

  void TellOfJob() {
    const JobSide &a = job_->a(), &b = job_->b();
    notes_.HintAtMeans(MeanHints(a.topology(), b.topology()));
    report_.job = JobReport{.ranks_a = a.Ranks(), .ranks_b = b.Ranks()};
    if (!a.topology().is_unknown()) report_.job->topology_a = a.topology().ToText();
    if (!b.topology().is_unknown()) report_.job->topology_b = b.topology().ToText();
    if (!options_.job && a.world() == b.world())
      report_.notes.push_back(
          fmt::format("ranks lie otherwise, A {} and B {}: those of each side are put together",
                      report_.job->topology_a, report_.job->topology_b));
  }

  // Error (kInvalidArgument): the models do not fit.
  Status CheckOpened(const OpenedPair& opened) {
    if (const std::string how = job_->MapText(); options_.job && options_.job->map && !how.empty())
      report_.job->map = fmt::format("{}: {}", options_.job->map->source(), how);
    const bool has_map = options_.job && options_.job->map;
    if (std::exchange(signature_checked_, true)) return {};
    SignatureCheck signature = CheckSignature(a_, b_, opened, has_map);
    if (!signature.refusal.empty()) TellOfRanksLackingAtFirst(&signature);
    return IsRefused(std::move(signature)) ? InvalidArgument(report_.why_not) : Status();
  }

  // As one that was killed before its first record: what the others hold may lack its part, and
  // says nothing of how large the models are.
  void TellOfRanksLackingAtFirst(SignatureCheck* signature) {
    const PassPair& first = job_->pairing().pairs.front();
    for (const bool of_a : {true, false}) {
      const JobSide& side = of_a ? job_->a() : job_->b();
      const PassRef& step = of_a ? first.a : first.b;
      const std::vector<int32_t> without = side.RanksWithout(step);
      if (without.empty()) continue;
      signature->refusal.clear();
      const std::string why = side.WhyMissing(without.front());
      report_.notes.push_back(fmt::format(
          "shapes differ, and {} of {} recorded nothing of step {}{}: what the other ranks hold "
          "may "
          "lack their part; where nobody says how ranks lie, --topology does",
          RanksText(without), of_a ? 'A' : 'B', step.step, why.empty() ? "" : " (" + why + ")"));
    }
  }

  bool IsRefused(SignatureCheck signature) {
    report_.signature = std::move(signature.notes);
    if (signature.refusal.empty()) return false;
    if (!options_.pass.select) {
      report_.why_not = std::move(signature.refusal);
      return true;
    }
    report_.signature.push_back(std::move(signature.refusal));
    return false;
  }

  Result<DiffReport> RunPairs(const RunSide& a, const RunSide& b, const PassPairing& pairing,
                              const DiffPair& diff_pair) {
    damage_.AddOf(a_);
    damage_.AddOf(b_);
    PassResults::Ways ways;
    ways.by_digest =
        !options_.on_row && !options_.pass.verify && !options_.pass.rules && !report_.job;
    // What puts ranks together learns from one step for the next.
    ways.one_at_a_time = report_.job.has_value();
    ways.by_step_before = !report_.job && options_.across.empty();
    if (!pairing.pairs.empty() && !report_.job) {
      const PassPair& first = pairing.pairs.front();
      if (ways.by_digest) ways.first = EqualKeys(a, b, first);
      const bool equal = ways.first && *ways.first;
      if (IsRefused(CheckSignature(a, b, first, equal))) return std::move(report_);
    }
    TDUMP_RETURN_IF_ERROR(ComparePasses(a, b, pairing.pairs, diff_pair, ways));
    if (!report_.why_not.empty()) return std::move(report_);  // of the first step, as it was opened
    Finish(a, b, pairing, diff_pair);
    return std::move(report_);
  }

  // After the last pass.
  void Finish(const RunSide& a, const RunSide& b, const PassPairing& pairing,
              const DiffPair& diff_pair) {
    AddUnpairedPasses(a, b, pairing);
    report_.selects = static_cast<bool>(options_.pass.select);
    report_.named = a_.is_of_named_records() || b_.is_of_named_records();
    weights_.CountNames();
    report_.steps.assign(steps_.begin(), steps_.end());
    report_.ranks.assign(ranks_.begin(), ranks_.end());
    origins_.Choose(weights_, diff_pair);
    ListAllowed();
    tally_.Judge(a, b, pairing, unpaired_, weights_);
    origins_.Explain(weights_);
    report_.steps_not_judged = judged_.NotJudged();
    AddHints();
    notes_.Finish();
    AddRulesHint();
  }

  void AddUnpairedPasses(const RunSide& a, const RunSide& b, const PassPairing& pairing) {
    for (const PassRef& pass : pairing.only_a) damage_.Add(unpaired_.AddPass('A', pass, a, b));
    for (const PassRef& pass : pairing.only_b) damage_.Add(unpaired_.AddPass('B', pass, b, a));
    for (const MovedStep& moved : moved_steps_) {
      const RunSide& side = moved.of_a ? a : b;
      for (const PassRef& pass : side.passes()) {
        if (pass.step == moved.step && IsSelected(side, pairing_options_, pass.rank) && !pass.extra)
          damage_.Add(unpaired_.AddPass(moved.of_a ? 'A' : 'B', pass, side, moved.why));
      }
    }
  }

  void AddHints() {
    if (std::string hint =
            LaterStepsHint(report_, first_failing_step_, options_.pass.compute.has_value());
        !hint.empty())
      report_.notes.push_back(std::move(hint));
    if (report_.inputs.judging_stopped && !report_.steps_aligned && options_.across.empty()) {
      if (std::string hint = OtherStepsHint(a_, b_, options_.pairing); !hint.empty())
        report_.notes.push_back(std::move(hint));
    }
    if (report_.overall == Overall::kDiffers && stage_hint_.LooksLikeStages())
      report_.notes.push_back(
          fmt::format("layers of ranks {} and {} differ throughout, and no coordinates say where "
                      "ranks are: stages of a pipeline do not hold the same layers; compare the "
                      "whole runs, with --topology pp=N",
                      *a_.rank(), *b_.rank()));
  }

  // Behind what counts, where there is room.
  void ListAllowed() {
    for (Row& row : allowed_) {
      if (report_.failing.size() >= options_.top) break;
      report_.failing.push_back(std::move(row));
    }
    unpaired_.ListAllowed();
  }

  // Of rules of the capture that differ.
  void AddRulesHint() {
    if (!HaveOtherRules(a_.Facts(), b_.Facts()) || report_.overall != Overall::kDiffers ||
        report_.counts.failing > 0)
      return;
    if (std::string note = unpaired_.RulesHint(paired_roles_); !note.empty())
      report_.notes.push_back(std::move(note));
  }

  Status ComparePasses(const RunSide& a, const RunSide& b, const std::vector<PassPair>& pairs,
                       const DiffPair& diff_pair, const PassResults::Ways& ways) {
    PassResults results(a, b, options_.pass, progress_.Watch(diff_pair, pairs), ways,
                        report_.job ? nullptr : options_.team);
    progress_.Begin(pairs.size());
    Status misfit;
    TDUMP_RETURN_IF_ERROR(results.ForEach(pairs, [&](size_t i, const PassResults::Diff& diff) {
      if (job_ && !job_->TeamStatus().ok()) return false;
      if (job_ && !job_->is_first()) return !job_->is_stopped();
      if (!report_.why_not.empty()) return false;
      if (report_.inputs.judging_stopped && !IsBeforeParting(pairs[i])) {
        ++report_.inputs.passes_not_judged;
        const bool parts_here = pairs[i].b.step == report_.inputs.first_differing_step;
        if (parts_here && diff.ok()) AddWeights(**diff, pairs[i]);
        if (parts_here && !diff.ok()) damage_.Add(diff.status());
      } else if (report_.job && diff.status().code() == StatusCode::kInvalidArgument) {
        misfit = diff.status();  // the map fits neither side
      } else if (diff.ok()) {
        AddPass(**diff, pairs[i]);
        if (job_) job_->KeepBefore(*diff, pairs[i]);
      } else {
        damage_.Add(diff.status());
      }
      progress_.ShowPassesDone(i + 1);
      return misfit.ok();
    }));
    return job_ && !job_->TeamStatus().ok() ? job_->TeamStatus() : misfit;
  }

  // Where ranks are put together of which one has no such step, as one that was killed before: its
  // part of the batch is missing, and no work of the others has a partner. False: none lacks it.
  bool AddPartOfBatch(const PassDiff& pass, const PassPair& pair) {
    if (!job_) return false;
    const bool other_inputs =
        std::any_of(pass.outcomes.begin(), pass.outcomes.end(), [](const Outcome& outcome) {
          return outcome.root_input && outcome.fails && !outcome.allowed;
        });
    if (!other_inputs) return false;
    const std::vector<int32_t> of_a = job_->a().RanksWithout(pair.a),
                               of_b = job_->b().RanksWithout(pair.b);
    if (of_a.empty() == of_b.empty()) return false;
    const bool only_in_a = of_a.empty();
    const PassRef& whole = only_in_a ? pair.a : pair.b;
    const uint64_t step = only_in_a ? pair.b.step : pair.a.step;
    const std::vector<int32_t>& without = only_in_a ? of_b : of_a;
    const std::string why =
        fmt::format("{} of {} {} no step {}", RanksText(without), only_in_a ? 'B' : 'A',
                    without.size() == 1 ? "has" : "have", step);
    const std::set<std::string> weights = AddWholeWeights(pass, pair, only_in_a);
    damage_.Add(unpaired_.AddPass(only_in_a ? 'A' : 'B', whole, only_in_a ? job_->a() : job_->b(),
                                  why, weights));
    return true;
  }

  // Those that no rank's part is missing of: they are as the steps before left them. Returns their
  // keys in A, or B.
  std::set<std::string> AddWholeWeights(const PassDiff& pass, const PassPair& pair, bool of_a) {
    std::set<std::string> keys;
    for (const Outcome& outcome : pass.outcomes) {
      const bool is_damaged = !outcome.error->empty();
      const bool is_whole =
          outcome.unresolved->empty() && outcome.comparison.verdict.shape == Answer::kSame;
      if (!outcome.is_weight() || !TellsOfOtherWork(pass, outcome) || !(is_damaged || is_whole))
        continue;
      const auto record = of_a ? pass.a->Get(outcome.ids.a) : pass.b->Get(outcome.ids.b);
      if (!record.ok()) continue;
      keys.insert(ToText(record->key));
      AddOutcome(pass, pair, outcome);
    }
    if (!keys.empty()) AddPlace(pass, pair);
    for (const io::Damage& damage : pass.damage) damage_.Add(damage);
    return keys;
  }

  void AddPass(const PassDiff& pass, const PassPair& pair) {
    if (AddPartOfBatch(pass, pair)) return;
    // Of other work only what it was given is told.
    const bool parted = GivenOtherTokens(pass);
    if (parted) PartAt(pair.b.step);
    if (report_.counts.passes_paired == 0) {
      report_.dtype_a = MainDType(*pass.a);
      report_.dtype_b = MainDType(*pass.b);
    }
    AddPlace(pass, pair);
    notes_.AddPass(pass);
    for (const io::Damage& damage : pass.damage) damage_.Add(damage);
    for (const Outcome& outcome : pass.outcomes) {
      if (parted && !TellsOfOtherWork(pass, outcome)) continue;
      AddOutcome(pass, pair, outcome);
      if (report_.job) CountLayout(pass, outcome);
    }
    if (!parted) {
      AddAbsent(pair);
      unpaired_.AddRecords(pass, pair);
    }
    report_.parameters.of_other_steps |= pass.weights_of_other_steps;
    origins_.AddPass(pass, pair, parted);
    if (options_.on_pass && !parted) options_.on_pass(pass, pair);
    if (pass.spill) damage_.Add(pass.spill->status());  // since it was compared
  }

  void AddAbsent(const PassPair& pair) {
    if (!job_) return;
    const auto absent = [](const JobSide& side, const PassRef& step, const JobSide& other) {
      std::vector<PassRef> passes = side.PassesAbsent(step);
      for (PassRef& lost : PassesOfLost(side, step, other)) passes.push_back(std::move(lost));
      return passes;
    };
    std::vector<PassRef> of_a = absent(job_->a(), pair.a, job_->b());
    std::vector<PassRef> of_b = absent(job_->b(), pair.b, job_->a());
    // What a rank of both lacks was not asked of it.
    const auto remove_common = [](std::vector<PassRef>* from, const std::vector<PassRef>& others) {
      std::erase_if(*from, [&](const PassRef& pass) {
        return std::any_of(others.begin(), others.end(),
                           [&](const PassRef& other) { return other.rank == pass.rank; });
      });
    };
    const std::vector<PassRef> all_of_a = of_a;
    remove_common(&of_a, of_b);
    remove_common(&of_b, all_of_a);
    for (const PassRef& pass : of_a) damage_.Add(unpaired_.AddAbsent('B', pass, job_->a().base()));
    for (const PassRef& pass : of_b) damage_.Add(unpaired_.AddAbsent('A', pass, job_->b().base()));
  }

  void AddPlace(const PassDiff& pass, const PassPair& pair) {
    judged_.AddPass(pair.b.step, pass);
    ++report_.counts.passes_paired;
    steps_.emplace(pair.a.step, pair.b.step);
    if (pair.b.rank != kAllRanks) ranks_.emplace(pair.a.captured_rank(), pair.b.rank);
  }

  // Of another rank, in the step in which the inputs part.
  void AddWeights(const PassDiff& pass, const PassPair& pair) {
    AddPlace(pass, pair);
    for (const io::Damage& damage : pass.damage) damage_.Add(damage);
    for (const Outcome& outcome : pass.outcomes) {
      if (outcome.is_weight() && TellsOfOtherWork(pass, outcome)) AddOutcome(pass, pair, outcome);
    }
  }

  bool IsBeforeParting(const PassPair& pair) const {
    return pair.b.step < report_.inputs.first_differing_step.value_or(0);
  }

  void AddOutcome(const PassDiff& pass, const PassPair& pair, const Outcome& outcome) {
    paired_roles_ |= RoleBit(outcome.role);
    judged_.Add(pair.b.step, outcome);
    if (outcome.rule != nullptr) report_.rules_used.insert(outcome.rule);
    if (!outcome.error->empty()) return AddUnreadable(pass, pair, outcome);
    if (of_unknown_ranks_) HintAtStages(pass, outcome);
    if (outcome.fails && !outcome.allowed)
      first_failing_step_ = std::min(first_failing_step_.value_or(pair.b.step), pair.b.step);
    tally_.Add(pass, outcome);
    weights_.See(outcome, pair.b.step);
    if (!outcome.fails) report_.bounds.Add(pass, pair, outcome);
    std::vector<Row>& list = outcome.allowed ? allowed_ : report_.failing;
    const bool listed = outcome.fails && list.size() < options_.top;
    notes_.Add(pass, pair, outcome);
    if (!options_.on_row && !listed && !outcome.is_weight() && !outcome.root_input) return;
    Row row = MakeRow(pass, pair, outcome);
    if (outcome.is_weight()) weights_.Add(row, pair.b.rank, outcome);
    if (outcome.root_input) tally_.AddInput(row, outcome);
    if (options_.on_row) options_.on_row(row);
    if (listed) list.push_back(std::move(row));
  }

  void HintAtStages(const PassDiff& pass, const Outcome& outcome) {
    const auto record = pass.b->Get(outcome.ids.b);
    const bool same_shape = outcome.comparison.verdict.shape == Answer::kSame;
    if (record.ok())
      stage_hint_.Add(outcome.role, record->key.path, same_shape, outcome.bits_differ);
  }

  void CountLayout(const PassDiff& pass, const Outcome& outcome) {
    const std::string how_a = pass.a->LayoutOf(outcome.ids.a);
    const std::string how_b = pass.b->LayoutOf(outcome.ids.b);
    if (!how_a.empty()) ++report_.job->how_a[how_a];
    if (!how_b.empty()) ++report_.job->how_b[how_b];
  }

  void AddUnreadable(const PassDiff& pass, const PassPair& pair, const Outcome& outcome) {
    ++report_.counts.paired;
    ++report_.counts.unreadable;
    if (!options_.on_row) return;
    Row row = MakeRow(pass, pair, outcome);
    row.comparison.notes = {*outcome.error};
    options_.on_row(row);
  }

  const RunSide& a_;
  const RunSide& b_;
  const DiffOptions& options_;
  PairOptions pairing_options_;
  DiffReport report_;
  OriginSearch origins_;
  WeightList weights_;
  Tally tally_;
  DamageList damage_;
  NoteList notes_;
  const bool of_unknown_ranks_ = AreUnknownRanks(a_, b_);
  StageHint stage_hint_;  // of those
  UnpairedList unpaired_;
  DiffProgress progress_;
  StepsJudged judged_;
  std::set<std::pair<uint64_t, uint64_t>> steps_;
  std::set<std::pair<int32_t, int32_t>> ranks_;
  std::optional<uint64_t> first_failing_step_;  // of B; what is allowed to is none
  std::vector<MovedStep> moved_steps_;
  std::vector<Row> allowed_;        // that fail; the first ones
  uint32_t paired_roles_ = 0;       // bits
  bool signature_checked_ = false;  // of jobs
  std::optional<JobDiff> job_;      // where ranks are put together
};

}  // namespace

std::string_view ToString(Overall overall) {
  switch (overall) {
    case Overall::kSame:
      return "same";
    case Overall::kDiffers:
      return "differs";
    case Overall::kNotComparable:
      return "not comparable";
    case Overall::kDamaged:
      return "damaged";
  }
  return "unknown";
}

Result<DiffReport> Diff(const RunSide& a, const RunSide& b, const DiffOptions& options) {
  return Differ(a, b, options).Run();
}

}  // namespace tdump::compare
