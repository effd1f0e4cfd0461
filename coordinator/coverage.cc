#include "coordinator/coverage.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "coordinator/closing.h"
#include "core/key.h"

namespace tdump::coordinator {
namespace {

constexpr uint8_t kAgreed = 1, kExtra = 2, kRecorded = 4;  // StepMapSection::flags

}  // namespace

Verdict VerdictOf(const io::RunIndex& index) {
  if (index.complete()) return Verdict::kComplete;
  const bool running = std::any_of(index.ranks.begin(), index.ranks.end(),
                                   [](const auto& rank) { return rank.how == kStillRunning; });
  return running ? Verdict::kRunning : Verdict::kIncomplete;
}

std::string_view ToString(Verdict verdict) {
  switch (verdict) {
    case Verdict::kComplete:
      return "COMPLETE";
    case Verdict::kRunning:
      return "RUNNING";
    case Verdict::kIncomplete:
      break;
  }
  return "INCOMPLETE";
}

namespace {

// Global steps of passes that the ring overwrote.
std::set<uint64_t> OverwrittenSteps(const io::ProcessEntry& process) {
  std::map<uint64_t, uint64_t> numbers;
  for (const io::StepMapSection& step : process.steps) numbers[step.local_step] = step.global_step;
  std::set<uint64_t> steps;
  for (const io::PassEntry& pass : process.overwritten) {
    const auto found = numbers.find(pass.info.local_step);
    steps.insert(found != numbers.end() ? found->second : pass.info.local_step);
  }
  return steps;
}

}  // namespace

std::set<uint64_t> StepsLeftOut(const io::ProcessEntry& process) {
  std::set<uint64_t> begun;  // local
  for (const auto* passes : {&process.passes, &process.overwritten}) {
    for (const io::PassEntry& pass : *passes) begun.insert(pass.info.local_step);
  }
  std::set<uint64_t> steps;
  for (const io::StepMapSection& step : process.steps) {
    const bool wanted = (step.flags & kRecorded) != 0 && (step.flags & kExtra) == 0;
    if (wanted && !begun.contains(step.local_step)) steps.insert(step.global_step);
  }
  return steps;
}

CutPass CountCut(const io::PassStore& store, const io::ProcessEntry& process,
                 const io::PassEntry& pass) {
  CutPass cut{pass.records, pass.calls};
  if (pass.listed || (!pass.part && pass.records != 0)) return cut;
  const auto reader = store.OpenPass(process, pass);
  if (!reader.ok()) return cut;
  cut.records = (*reader)->record_count();
  uint64_t calls = 0;
  const Status status = (*reader)->ForEachCall([&calls](const io::CallRecord&) {
    ++calls;
    return true;
  });
  if (status.ok()) cut.calls = calls;
  return cut;
}

std::vector<bool> RecordingRanks(const io::RunIndex& index) {
  const bool all = std::all_of(index.ranks.begin(), index.ranks.end(), [](const auto& rank) {
    return rank.selected || rank.processes.empty();
  });
  std::vector<bool> ranks;
  for (const io::RankState& rank : index.ranks)
    ranks.push_back(rank.selected || (all && rank.how == kNeverStarted));
  return ranks;
}

std::vector<RankCoverage> CoverRanks(const io::PassStore& store, const io::RunIndex& index,
                                     OfCutPasses cut) {
  std::vector<RankCoverage> ranks(index.ranks.size());
  for (const io::IndexedPass& pass : index.passes) {
    const io::ProcessEntry& process = store.processes()[pass.process];
    const io::PassEntry& entry = process.passes[pass.pass];
    const int32_t number = process.identity.rank;
    if (number < 0 || static_cast<size_t>(number) >= ranks.size()) continue;  // forged
    RankCoverage& rank = ranks[static_cast<size_t>(number)];
    const bool whole = !entry.part && entry.error.empty();
    const bool open = pass.pass + 1 == process.passes.size() && EndedInItsLastPass(process);
    (pass.extra ? rank.extra : whole && !open ? rank.whole : rank.torn).insert(pass.global_step);
    ++rank.passes;
    const CutPass counts = cut == OfCutPasses::kNothing ? CutPass{entry.records, entry.calls}
                                                        : CountCut(store, process, entry);
    rank.records += counts.records;
    rank.calls += counts.calls;
    rank.bytes += entry.file_bytes;
    rank.blocked_ns += entry.blocked_ns;
    for (const io::ReasonCount& count : entry.not_kept) rank.not_kept += count.count;
  }
  for (size_t i = 0; i < ranks.size(); ++i) {
    for (const size_t process : index.ranks[i].processes) {
      ranks[i].overwritten.merge(OverwrittenSteps(store.processes()[process]));
      ranks[i].whole.insert(ranks[i].overwritten.begin(), ranks[i].overwritten.end());
      const std::string& how = index.ranks[i].how;
      if (index.ranks[i].closed || how == kGone || how == kEndedUnwritten)
        ranks[i].left_out.merge(StepsLeftOut(store.processes()[process]));
      for (const io::StepMapSection& step : store.processes()[process].steps) {
        if ((step.flags & kAgreed) != 0) ranks[i].agreed.insert(step.global_step);
      }
    }
  }
  return ranks;
}

bool IsIdleContainer(const io::OperatorCoverage& coverage) {
  static constexpr std::string_view kContainers[] = {"ModuleList",     "ModuleDict",
                                                     "ParameterList",  "ParameterDict",
                                                     "ModuleListImpl", "ModuleDictImpl"};
  const std::string_view cls = coverage.cls;
  const std::string_view last = cls.substr(cls.find_last_of(".:") + 1);
  return coverage.ranks_called == 0 &&
         std::find(std::begin(kContainers), std::end(kContainers), last) != std::end(kContainers);
}

bool HasOverwritten(const io::RunIndex& index) {
  return std::any_of(index.operators.begin(), index.operators.end(),
                     [](const io::OperatorCoverage& op) { return op.overwritten != 0; });
}

std::set<uint64_t> StepCoverage::all() const {
  std::set<uint64_t> steps = everywhere;
  for (const auto& [count, of_count] : in_part) steps.insert(of_count.begin(), of_count.end());
  return steps;
}

StepCoverage CoverSteps(const std::vector<RankCoverage>& covered, const io::RunIndex& index) {
  StepCoverage steps;
  const std::vector<bool> recording = RecordingRanks(index);
  std::map<uint64_t, size_t> whole;  // step -> ranks
  for (size_t i = 0; i < covered.size(); ++i) {
    for (const auto* lacking : {&covered[i].torn, &covered[i].left_out}) {
      for (const uint64_t step : *lacking) whole.try_emplace(step, 0);
    }
    for (const uint64_t step : covered[i].whole) {
      // Two processes of one rank: one of them wrote it in part.
      whole[step] += index.ranks[i].selected && !covered[i].torn.contains(step) ? 1 : 0;
    }
    steps.ranks += recording[i] ? 1 : 0;
  }
  for (const auto& [step, ranks] : whole)
    (ranks == steps.ranks ? steps.everywhere : steps.in_part[ranks]).insert(step);
  return steps;
}

namespace {

// Names of what the processes of these ranks have that miss a step, or part of one.
std::unordered_set<std::string> OperatorsOfShortRanks(const io::PassStore& store,
                                                      const io::RunIndex& index) {
  const std::vector<RankCoverage> covered = CoverRanks(store, index);
  const std::set<uint64_t> written = CoverSteps(covered, index).all();
  std::unordered_set<std::string> names;
  for (size_t i = 0; i < covered.size(); ++i) {
    const bool is_short = covered[i].whole != written || !covered[i].torn.empty();
    if (!index.ranks[i].selected || !is_short) continue;
    for (const size_t place : index.ranks[i].processes) {
      const io::ProcessEntry& process = store.processes()[place];
      for (const io::ExpectSection& op : process.expected)
        names.insert(PlainName(op.root, op.path, op.op));
      for (const io::OperatorCountSection& op : process.counts)
        names.insert(PlainName(op.root, op.path, op.op));
    }
  }
  return names;
}

// Of operators that ranks which ended whole did not call: the ranks that did.
std::unordered_map<std::string, std::set<uint64_t>> CallersOfPartlyCalled(
    const io::PassStore& store, const io::RunIndex& index) {
  std::unordered_map<std::string, std::set<uint64_t>> callers;
  for (const io::OperatorCoverage& coverage : index.operators) {
    if (coverage.ranks_called > 0 && coverage.ranks_called < coverage.ranks_expected)
      callers.try_emplace(coverage.name);
  }
  if (callers.empty()) return callers;
  std::unordered_set<std::string> unknown;
  for (const io::RankState& rank : index.ranks) {
    for (const size_t place : rank.processes) {
      const io::ProcessEntry& process = store.processes()[place];
      for (const io::OperatorCountSection& op : process.counts) {
        const auto found = callers.find(PlainName(op.root, op.path, op.op));
        if (found != callers.end() && op.calls > 0)
          found->second.insert(static_cast<uint64_t>(rank.rank));
      }
      for (const io::ExpectSection& op : process.expected) {
        if (!rank.closed) unknown.insert(PlainName(op.root, op.path, op.op));
      }
    }
  }
  std::erase_if(callers, [&](const auto& item) { return unknown.contains(item.first); });
  return callers;
}

}  // namespace

OperatorSummary SummariseOperators(const io::PassStore& store, const io::RunIndex& index) {
  OperatorSummary summary;
  const std::unordered_set<std::string> cut = OperatorsOfShortRanks(store, index);
  const auto callers = CallersOfPartlyCalled(store, index);
  for (const io::OperatorCoverage& coverage : index.operators) {
    if (coverage.ranks_expected == 0 || IsIdleContainer(coverage)) continue;
    ++summary.selected;
    if (coverage.ranks_called == 0) {
      summary.never_called.push_back(coverage.name);
      continue;
    }
    ++summary.seen;
    if (const auto found = callers.find(coverage.name); found != callers.end())
      summary.on_some_ranks[{{found->second.begin(), found->second.end()}, coverage.ranks_expected}]
          .push_back(coverage.name);
    if (coverage.ranks_called != coverage.ranks_expected || coverage.not_kept != 0) continue;
    ++(cut.contains(coverage.name) ? summary.but_for_steps : summary.complete);
  }
  return summary;
}

}  // namespace tdump::coordinator
