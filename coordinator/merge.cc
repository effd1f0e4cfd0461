#include "coordinator/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "coordinator/closing.h"
#include "coordinator/coverage_names.h"
#include "coordinator/merge_holes.h"
#include "coordinator/rule_hint.h"
#include "core/key.h"
#include "core/text.h"

namespace tdump::coordinator {
namespace {

constexpr uint8_t kAgreed = 1, kExtra = 2;
constexpr size_t kNearNames = 3;
// A forged world must not make a table of two billion ranks. Room for any job
// of which a good part left something.
constexpr int64_t kMostRanks = 1 << 16, kMostRanksPerProcess = 16;

using KeyGenerations = std::map<std::string, uint32_t>;

KeyGenerations GenerationByKey(const io::PassStore& store) {
  KeyGenerations smallest;
  for (const io::ProcessEntry& process : store.processes()) {
    const auto& [key, number] = std::tie(process.identity.job_key, process.identity.generation);
    const auto [place, is_new] = smallest.emplace(key, number);
    if (!is_new) place->second = std::min(place->second, number);
  }
  return smallest;
}

uint32_t Lookup(const KeyGenerations& by_key, const io::IdentitySection& identity) {
  // Without a job key the identity was lost; its number is all there is.
  if (identity.job_key.empty()) return identity.generation;
  const auto found = by_key.find(identity.job_key);
  return found == by_key.end() ? identity.generation : found->second;
}

// The number under which all ranks know a step of one process.
class StepNumbers {
 public:
  explicit StepNumbers(const io::ProcessEntry& process) : steps_(process.steps) {}

  void Fill(io::IndexedPass* pass) const {
    const auto after = std::upper_bound(
        steps_.begin(), steps_.end(), pass->local_step,
        [](uint64_t step, const io::StepMapSection& entry) { return step < entry.local_step; });
    pass->global_step = pass->local_step;
    if (after == steps_.begin()) return;
    const io::StepMapSection& entry = *std::prev(after);
    pass->global_step = entry.global_step + (pass->local_step - entry.local_step);
    if (entry.local_step != pass->local_step) return;
    pass->agreed = (entry.flags & kAgreed) != 0;
    pass->extra = (entry.flags & kExtra) != 0;
  }

 private:
  const std::vector<io::StepMapSection>& steps_;
};

class Builder {
 public:
  Builder(const io::PassStore& store, uint32_t generation, const MergeOptions& options)
      : merged_{.store = store, .options = options} {
    index_.run = store.run();
    index_.generation = generation;
    const KeyGenerations by_key = GenerationByKey(store);
    for (size_t i = 0; i < store.processes().size(); ++i) {
      if (Lookup(by_key, store.processes()[i].identity) == generation) merged_.members.push_back(i);
    }
  }

  io::RunIndex Build() {
    if (merged_.members.empty()) {
      index_.world = 0;
      index_.holes.push_back(
          fmt::format("no process wrote into generation {} of this run", index_.generation));
      return std::move(index_);
    }
    MakeRanks();
    for (const size_t process : merged_.members) AddProcess(process);
    Finish();
    index_.holes = FindHoles(merged_);
    return std::move(index_);
  }

 private:
  const io::ProcessEntry& Process(size_t i) const { return merged_.Process(i); }

  void MakeRanks() {
    int64_t world = 1;
    for (const size_t i : merged_.members) {
      const io::IdentitySection& identity = Process(i).identity;
      world = std::max({world, int64_t{identity.world}, int64_t{identity.rank} + 1});
    }
    const int64_t most =
        std::max(kMostRanks, kMostRanksPerProcess * static_cast<int64_t>(merged_.members.size()));
    if (world > most) {
      index_.damage.push_back({index_.run, 0,
                               fmt::format("world: {} ranks, with {} processes; only the first {} "
                                           "ranks are looked at",
                                           world, merged_.members.size(), most)});
    }
    index_.world = static_cast<int32_t>(std::min(world, most));
    index_.ranks.resize(static_cast<size_t>(index_.world));
    for (int32_t rank = 0; rank < index_.world; ++rank) {
      index_.ranks[rank].rank = rank;
      index_.ranks[rank].how = merged_.OneRankOnly() ? "not in this directory" : kNeverStarted;
    }
    for (const size_t i : merged_.members) {
      const int32_t rank = Process(i).identity.rank;
      if (rank >= 0 && rank < index_.world) index_.ranks[rank].processes.push_back(i);
    }
  }

  void AddProcess(size_t i) {
    const io::ProcessEntry& process = Process(i);
    const int32_t rank = process.identity.rank;
    if (rank < 0 || rank >= index_.world) {
      index_.damage.push_back(
          {process.directory, 0, fmt::format("rank: {}, in a world of {}", rank, index_.world)});
      return;
    }
    AddIdentity(process.identity);
    AddState(process, &index_.ranks[rank]);
    AddPasses(i, &index_.ranks[rank]);
    AddOperators(process);
    AddRules(process);
    AddNotes(process);
    AddAgreement(process);
    index_.damage.insert(index_.damage.end(), process.damage.begin(), process.damage.end());
  }

  void AddIdentity(const io::IdentitySection& identity) {
    const auto fill = [](std::string* into, const std::string& from) {
      if (into->empty()) *into = from;
    };
    fill(&index_.job_key, identity.job_key);
    fill(&index_.job_label, identity.job_label);
    fill(&index_.boundary, identity.boundary);
    fill(&index_.rank_source, identity.source);
  }

  void AddState(const io::ProcessEntry& process, io::RankState* state) {
    state->selected |= process.identity.selected != 0;
    const bool first = &process == &Process(state->processes.front());
    state->closed = (first || state->closed) && process.close.has_value();
    if (process.close) {
      if (first || state->closed) state->how = process.close->how;
      index_.steps_seen = std::max(index_.steps_seen, process.close->steps_seen);
      return;
    }
    state->how = merged_.FateOf(process);
    state->lost |= state->how != kStillRunning;
    state->killed |= state->how == kGone || state->how == kGoneOrRunning;
    AddStepBegun(process, state);
  }

  // Of a process without a closing record: it was in the step behind the last one that ended,
  // unless it was on its way out.
  void AddStepBegun(const io::ProcessEntry& process, io::RankState* state) {
    if (!process.agreements.empty()) return;
    uint64_t ended = process.steps.empty() ? 0 : process.steps.back().local_step + 1;
    if (merged_.options.steps_ended)
      ended = std::max(ended, merged_.options.steps_ended(merged_.store, process).value_or(0));
    if (ended == 0) return;
    io::IndexedPass begun;
    begun.local_step = ended;
    StepNumbers(process).Fill(&begun);
    state->last_step = std::max(state->last_step, begun.global_step);
    index_.steps_seen = std::max(index_.steps_seen, begun.global_step + 1);
  }

  void AddPasses(size_t i, io::RankState* state) {
    const io::ProcessEntry& process = Process(i);
    const StepNumbers numbers(process);
    std::set<std::string> files;  // a packed one has several passes; a node file, of any process
    std::set<std::string>* const counted = process.node_file.empty() ? &files : &node_files_;
    for (size_t p = 0; p < process.passes.size(); ++p) {
      const io::PassEntry& entry = process.passes[p];
      io::IndexedPass pass;
      pass.process = i;
      pass.pass = p;
      pass.local_step = entry.info.local_step;
      numbers.Fill(&pass);
      if (index_.world == 1) pass.agreed = true;  // with itself
      index_.passes.push_back(pass);
      index_.bytes += entry.file_bytes;
      const std::string& file = process.node_file.empty() ? entry.file : process.node_file;
      index_.files += !entry.file.empty() && counted->insert(file).second ? 1 : 0;
      state->last_step = std::max(state->last_step, pass.global_step);
      index_.steps_seen = std::max(index_.steps_seen, pass.global_step + 1);
      for (const io::ReasonCount& count : entry.not_kept)
        AddNotKept(count, process.identity.rank, pass.global_step);
    }
    for (const io::PassEntry& gone : process.overwritten) {
      io::IndexedPass place;
      place.local_step = gone.info.local_step;
      numbers.Fill(&place);
      for (const io::ReasonCount& count : gone.not_kept)
        AddNotKept(count, process.identity.rank, place.global_step);
      index_.steps_seen = std::max(index_.steps_seen, gone.info.local_step + 1);
    }
    for (const io::StepMapSection& step : process.steps) {
      if ((step.flags & kAgreed) != 0) index_.max_lag = std::max(index_.max_lag, step.lag);
    }
    if (!process.steps.empty()) {
      state->last_step = std::max(state->last_step, process.steps.back().global_step);
      index_.steps_seen = std::max(index_.steps_seen, process.steps.back().global_step + 1);
    }
  }

  void AddNotKept(const io::ReasonCount& count, int32_t rank, uint64_t step) {
    if (count.count == 0) return;
    NotKept& of_rank = merged_.not_kept[static_cast<SkipReason>(count.reason)][rank];
    of_rank.records += count.count;
    of_rank.steps.insert(step);
  }

  struct OperatorRanks {
    size_t place = 0;  // in index_.operators
    int32_t last_expected = -1, last_called = -1;
  };

  OperatorRanks* Operator(const std::string& root, const std::string& path, const std::string& op) {
    std::string name = PlainName(root, path, op);
    const auto [found, is_new] = operators_.try_emplace(name);
    if (is_new) {
      found->second.place = index_.operators.size();
      io::OperatorCoverage coverage;
      coverage.name = std::move(name);
      if (!op.empty())
        coverage.kind =
            op.find("::") != std::string::npos ? OperatorKind::kAten : OperatorKind::kTap;
      index_.operators.push_back(std::move(coverage));
    }
    return &found->second;
  }

  // Processes come in order of rank, so that two of one rank count once.
  void AddOperators(const io::ProcessEntry& process) {
    const int32_t rank = process.identity.rank;
    const auto expect = [&](OperatorRanks* ranks) {
      if (ranks->last_expected == rank) return;
      ranks->last_expected = rank;
      ++index_.operators[ranks->place].ranks_expected;
    };
    for (const io::ExpectSection& expected : process.expected) {
      OperatorRanks* ranks = Operator(expected.root, expected.path, expected.op);
      io::OperatorCoverage& coverage = index_.operators[ranks->place];
      coverage.kind = static_cast<OperatorKind>(expected.kind);
      if (coverage.cls.empty()) coverage.cls = expected.cls;
      expect(ranks);
    }
    for (size_t i = 0; i < process.counts.size(); ++i) {
      const io::OperatorCountSection& count = process.counts[i];
      OperatorRanks* ranks = Operator(count.root, count.path, count.op);
      io::OperatorCoverage& coverage = index_.operators[ranks->place];
      if (!process.overwritten_records.empty())
        coverage.overwritten += process.overwritten_records[i];
      coverage.calls += count.calls;
      coverage.records += count.records;
      coverage.not_kept += count.not_kept;
      if (count.calls == 0) continue;
      // A root that no rule asked for was called for the signature; other operators may be known
      // only when they are called.
      const bool root = count.path == "." && count.op.empty();
      if (!root) expect(ranks);
      if (ranks->last_expected != rank) continue;
      if (ranks->last_called != rank) ++coverage.ranks_called;
      ranks->last_called = rank;
    }
  }

  void AddRules(const io::ProcessEntry& process) {
    for (const io::RuleSection& rule : process.rules) {
      const auto [found, is_new] = rules_.emplace(
          std::make_tuple(rule.filter_set, rule.rule, rule.selector), index_.rules.size());
      if (is_new) {
        index_.rules.push_back({rule, {}});
      } else {
        uint64_t& matched = index_.rules[found->second].rule.matched;
        matched = std::max(matched, rule.matched);
      }
    }
  }

  void AddNotes(const io::ProcessEntry& process) {
    for (const io::NoteSection& note : process.notes) {
      const auto [found, is_new] = notes_.emplace(note.text, merged_.notes.size());
      if (is_new) merged_.notes.push_back({.text = note.text});
      Merged::Note& all = merged_.notes[found->second];
      all.level = std::max(all.level, note.level);
      all.ranks.insert(process.identity.rank);
    }
  }

  void AddAgreement(const io::ProcessEntry& process) {
    if (process.agreements.empty()) return;
    const io::AgreementSection& last = process.agreements.back();
    if (transports_.insert(last.transport).second)
      index_.transport += (index_.transport.empty() ? "" : ", ") + last.transport;
    index_.max_lag = std::max(index_.max_lag, last.max_lag);
    for (const int32_t rank : last.lost) silent_.insert(rank);
  }

  void Finish() {
    const auto order = [&](const io::IndexedPass& p) {
      const io::IdentitySection& identity = Process(p.process).identity;
      return std::make_tuple(p.global_step, identity.rank, p.process, p.pass);
    };
    std::sort(index_.passes.begin(), index_.passes.end(),
              [&](const auto& a, const auto& b) { return order(a) < order(b); });
    NameNearRules();
    for (auto rank = silent_.begin(); rank != silent_.end();) {
      const bool known = *rank >= 0 && *rank < index_.world;
      if (known && !index_.ranks[*rank].closed) index_.ranks[*rank].lost = true;
      rank = known ? std::next(rank) : silent_.erase(rank);
    }
    if (!silent_.empty()) {
      index_.notes.push_back(fmt::format("{} fell silent, the others went on", RankList(silent_)));
    }
    for (const auto& [reason, by_rank] : merged_.not_kept) {
      uint64_t records = 0;
      std::set<int32_t> ranks;
      for (const auto& [rank, of_rank] : by_rank) {
        records += of_rank.records;
        ranks.insert(rank);
      }
      index_.not_kept.emplace_back(fmt::format("{} ({})", ToString(reason), RankList(ranks)),
                                   records);
    }
    std::erase_if(merged_.notes,
                  [this](const Merged::Note& note) { return IsIdleHint(note.text); });
    for (Merged::Note& note : merged_.notes) {
      if (index_.world != 1) note.text = fmt::format("{}: {}", RankList(note.ranks), note.text);
      index_.notes.push_back(note.text);
    }
  }

  // Of a rule that some rank matched.
  bool IsIdleHint(std::string_view note) const {
    const auto about = RuleOfHint(note);
    return about && std::any_of(index_.rules.begin(), index_.rules.end(), [&](const auto& rule) {
             return rule.rule.filter_set == about->first && rule.rule.rule == about->second &&
                    rule.rule.matched != 0;
           });
  }

  void NameNearRules() {
    std::vector<std::string> names;
    for (io::RuleCoverage& rule : index_.rules) {
      if (rule.rule.matched != 0 || rule.rule.selector.empty()) continue;
      if (names.empty()) {
        for (const io::OperatorCoverage& coverage : index_.operators)
          names.push_back(coverage.name);
      }
      rule.near_names = NearNames(rule.rule.selector, names, kNearNames);
    }
  }

  Merged merged_;
  io::RunIndex& index_ = merged_.index;
  std::unordered_map<std::string, OperatorRanks> operators_;
  std::map<std::tuple<uint32_t, uint32_t, std::string>, size_t> rules_;
  std::map<std::string_view, size_t> notes_;  // text as the process has it -> in merged_.notes
  std::set<std::string> transports_;
  std::set<std::string> node_files_;  // that were counted
  std::set<int32_t> silent_;
};

}  // namespace

std::vector<uint32_t> Generations(const io::PassStore& store) {
  const KeyGenerations by_key = GenerationByKey(store);
  std::set<uint32_t> numbers;
  for (const io::ProcessEntry& process : store.processes())
    numbers.insert(Lookup(by_key, process.identity));
  return {numbers.begin(), numbers.end()};
}

uint32_t GenerationOf(const io::PassStore& store, const io::IdentitySection& identity) {
  return Lookup(GenerationByKey(store), identity);
}

io::RunIndex BuildRunIndex(const io::PassStore& store, uint32_t generation,
                           const MergeOptions& options) {
  return Builder(store, generation, options).Build();
}

std::vector<io::RunIndex> BuildRunIndexes(const io::PassStore& store, const MergeOptions& options) {
  std::vector<io::RunIndex> indexes;
  for (const uint32_t generation : Generations(store))
    indexes.push_back(BuildRunIndex(store, generation, options));
  return indexes;
}

}  // namespace tdump::coordinator
