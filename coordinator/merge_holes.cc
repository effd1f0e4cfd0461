#include "coordinator/merge_holes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "coordinator/closing.h"
#include "coordinator/coverage.h"
#include "coordinator/rule_hint.h"
#include "core/text.h"

namespace tdump::coordinator {
namespace {

// Notes from this level on tell of something missing: 2 error, 3 not captured.
constexpr uint8_t kNoteOfALoss = 2;

// "step 3", "steps 0-2,5".
std::string StepList(const std::set<uint64_t>& steps) {
  return fmt::format("step{} {}", steps.size() == 1 ? "" : "s",
                     RangesText({steps.begin(), steps.end()}));
}

class Finder {
 public:
  explicit Finder(const Merged& merged)
      : merged_(merged),
        index_(merged.index),
        listed_(merged.options.holes_of ? merged.options.holes_of : [](int32_t) { return true; }) {}

  std::vector<std::string> Find() {
    OfRanks();
    OfCopies();
    OfFiles();
    OfPasses();
    OfStepsLeftOut();
    OfRecords();
    OfRules();
    OfNotes();
    OfAnEmptyRun();
    return std::move(holes_);
  }

 private:
  // "rank 3", "rank 3 (pid 4711)" where the rank has several processes.
  std::string NameOf(const io::ProcessEntry& process) const {
    const int32_t rank = process.identity.rank;
    return index_.ranks[rank].processes.size() > 1
               ? fmt::format("rank {} (pid {})", rank, process.identity.pid)
               : fmt::format("rank {}", rank);
  }

  void OfRanks() {
    std::set<int32_t> never;
    for (const io::RankState& state : index_.ranks) {
      if (state.processes.empty() && listed_(state.rank)) never.insert(state.rank);
    }
    if (!never.empty() && merged_.OneRankOnly()) {
      holes_.push_back("this is one rank's directory; the run is above it");
    } else if (!never.empty()) {
      holes_.push_back(fmt::format("{} never started under tdump", RankList(never)));
    }
    const bool pass_file = merged_.OneRankOnly() && index_.job_key.empty();
    for (const io::RankState& state : index_.ranks) {
      if (state.closed || state.processes.empty() || pass_file || !listed_(state.rank)) continue;
      for (const size_t i : state.processes) OfAnOpenProcess(state, merged_.Process(i));
    }
  }

  void OfAnOpenProcess(const io::RankState& state, const io::ProcessEntry& process) {
    if (process.close) return;
    const io::IdentitySection& identity = process.identity;
    const std::string who =
        fmt::format("rank {} ({}pid {})", state.rank,
                    identity.host.empty() ? "" : identity.host + ", ", identity.pid);
    holes_.push_back(LeftNothing(process)
                         ? fmt::format("{} {}", who, kLeftNothing)
                         : fmt::format("{} wrote no closing record: {}, last step {}", who,
                                       merged_.FateOf(process), state.last_step));
  }

  // The directories of one process: all but one were copied there.
  void OfCopies() {
    using Process = std::tuple<int32_t, std::string_view, int64_t, uint64_t, std::string_view>;
    std::map<Process, std::vector<std::string>> directories;
    for (const size_t i : merged_.members) {
      const io::IdentitySection& who = merged_.Process(i).identity;
      if (who.job_key.empty() || !listed_(who.rank)) continue;
      directories[{who.rank, who.host, who.pid, who.start_time, who.job_key}].push_back(
          merged_.Process(i).directory);
    }
    for (const auto& [process, copies] : directories) {
      if (copies.size() < 2) continue;
      holes_.push_back(fmt::format("rank {} (pid {}) is there {} times, in {}: keep one of them",
                                   std::get<0>(process), std::get<2>(process), copies.size(),
                                   fmt::join(copies, " and ")));
    }
  }

  void OfFiles() {
    std::set<std::string> of_others;
    for (const size_t i : merged_.members) {
      const io::ProcessEntry& process = merged_.Process(i);
      if (listed_(process.identity.rank)) continue;
      for (const io::Damage& damage : process.damage) of_others.insert(damage.file);
    }
    for (const io::Damage& damage : index_.damage) {
      if (of_others.contains(damage.file)) continue;
      holes_.push_back(fmt::format("{} at byte {}: {}", damage.file, damage.offset, damage.what));
    }
  }

  void OfPasses() {
    for (const io::IndexedPass& pass : index_.passes) {
      const io::ProcessEntry& process = merged_.Process(pass.process);
      const io::PassEntry& entry = process.passes[pass.pass];
      if (!listed_(process.identity.rank)) continue;
      const std::string where = fmt::format("{}, step {}", NameOf(process), pass.global_step);
      if (!entry.error.empty()) {
        holes_.push_back(fmt::format("{}: {}", where, entry.error));
      } else if (entry.part && (process.close || merged_.FateOf(process) != kStillRunning)) {
        holes_.push_back(fmt::format("{}: the pass is unfinished ({})", where, entry.file));
      } else if (pass.pass + 1 == process.passes.size() && EndedInItsLastPass(process)) {
        holes_.push_back(fmt::format("{}: may be cut, the process ended in or after it: {}", where,
                                     process.close->how));
      }
    }
  }

  void OfStepsLeftOut() {
    for (const size_t i : merged_.members) {
      const io::ProcessEntry& process = merged_.Process(i);
      const int32_t rank = process.identity.rank;
      if (rank < 0 || rank >= index_.world || !listed_(rank)) continue;  // forged
      if (!process.close && merged_.FateOf(process) == kStillRunning) continue;
      const std::set<uint64_t> steps = StepsLeftOut(process);
      if (steps.empty()) continue;
      holes_.push_back(
          fmt::format("{}, {}: to be recorded, and nothing was", NameOf(process), StepList(steps)));
    }
  }

  // Records that are missing, with where they are: the same of several ranks in one line.
  void OfRecords() {
    for (const auto& [reason, by_rank] : merged_.not_kept) {
      if (reason == SkipReason::kMaxRecords) continue;  // as asked
      uint64_t records = 0;
      std::set<int32_t> ranks;
      std::set<uint64_t> steps;
      for (const auto& [rank, of_rank] : by_rank) {
        if (!listed_(rank)) continue;
        records += of_rank.records;
        ranks.insert(rank);
        steps.insert(of_rank.steps.begin(), of_rank.steps.end());
      }
      if (records == 0) continue;
      holes_.push_back(fmt::format("{}, {}: {} not kept as asked: {}", RankList(ranks),
                                   StepList(steps), Plural(records, "record"), ToString(reason)));
    }
  }

  void OfRules() {
    for (const io::RuleCoverage& rule : index_.rules) {
      // A rule that keeps nothing loses nothing.
      if (rule.rule.matched != 0 || IsOff(rule.rule.text)) continue;
      holes_.push_back(RuleLabel(rule.rule.rule, rule.rule.text, rule.rule.selector) +
                       " matched nothing");
    }
  }

  void OfNotes() {
    for (const Merged::Note& note : merged_.notes) {
      if (note.level >= kNoteOfALoss && std::any_of(note.ranks.begin(), note.ranks.end(), listed_))
        holes_.push_back(note.text);
    }
  }

  // All ranks ended in order, and none wrote anything: that is not what anyone asked for.
  void OfAnEmptyRun() {
    const auto wrote = [&](size_t i) {
      const io::ProcessEntry& process = merged_.Process(i);
      return !process.passes.empty() || !process.overwritten.empty();
    };
    if (!holes_.empty() || std::any_of(merged_.members.begin(), merged_.members.end(), wrote))
      return;
    const bool selected = std::any_of(index_.ranks.begin(), index_.ranks.end(),
                                      [](const io::RankState& rank) { return rank.selected; });
    if (selected && NoneIsAsked()) return;
    holes_.push_back(selected ? "nothing was written: no selected step began"
                              : fmt::format("nothing was written: `ranks` selects none of {}",
                                            Plural(index_.ranks.size(), "rank")));
  }

  // By every process that was to record.
  bool NoneIsAsked() const {
    return std::all_of(merged_.members.begin(), merged_.members.end(), [this](size_t i) {
      const io::ProcessEntry& process = merged_.Process(i);
      const auto says = [](const io::NoteSection& note) { return note.text == kNoStepAsked; };
      return process.identity.selected == 0 ||
             std::any_of(process.notes.begin(), process.notes.end(), says);
    });
  }

  const Merged& merged_;
  const io::RunIndex& index_;
  const std::function<bool(int32_t)> listed_;  // whether the holes of a rank are
  std::vector<std::string> holes_;
};

}  // namespace

std::string_view Merged::FateOf(const io::ProcessEntry& process) const {
  if (LeftNothing(process)) return kLeftNothing;
  if (OneRankOnly() && process.identity.job_key.empty()) return kWithoutManifest;
  if (options.has_ended && options.has_ended(store, process)) return kEndedUnwritten;
  const std::optional<bool> running =
      options.is_running ? options.is_running(process.identity) : std::nullopt;
  if (!running) return kGoneOrRunning;
  return *running ? kStillRunning : kGone;
}

std::vector<std::string> FindHoles(const Merged& merged) { return Finder(merged).Find(); }

std::string RankList(const std::set<int32_t>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s",
                     RangesText({ranks.begin(), ranks.end()}));
}

}  // namespace tdump::coordinator
