#include "coordinator/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "coordinator/closing.h"
#include "coordinator/coverage_names.h"
#include "core/key.h"
#include "core/text.h"

namespace tdump::coordinator {
namespace {

constexpr uint8_t kAgreed = 1, kExtra = 2;
constexpr size_t kNearNames = 3;
constexpr const char* kNeverStarted = "never started";
constexpr const char* kStillRunning = "still running";
constexpr const char* kLeftNothing =
    "left no word in its manifest: killed at its start, or its disk was full";
// A forged world must not make a table of two billion ranks. Room for any job
// of which a good part left something.
constexpr int64_t kMostRanks = 1 << 16, kMostRanksPerProcess = 16;

// Notes from this level on tell of something missing: 2 error, 3 not captured.
constexpr uint8_t kNoteOfALoss = 2;

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

// "rank 3", "rank 3 (pid 4711)".
std::string NameOf(const io::ProcessEntry& process, bool several) {
  return several ? fmt::format("rank {} (pid {})", process.identity.rank, process.identity.pid)
                 : fmt::format("rank {}", process.identity.rank);
}

std::string RankList(const std::set<int32_t>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s",
                     RangesText({ranks.begin(), ranks.end()}));
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
      : store_(store), options_(options) {
    index_.run = store.run();
    index_.generation = generation;
    const KeyGenerations by_key = GenerationByKey(store);
    for (size_t i = 0; i < store.processes().size(); ++i) {
      if (Lookup(by_key, store.processes()[i].identity) == generation) members_.push_back(i);
    }
  }

  io::RunIndex Build() {
    if (members_.empty()) {
      index_.world = 0;
      index_.holes.push_back(
          fmt::format("no process wrote into generation {} of this run", index_.generation));
      return std::move(index_);
    }
    MakeRanks();
    for (const size_t process : members_) AddProcess(process);
    Finish();
    FindHoles();
    return std::move(index_);
  }

 private:
  const io::ProcessEntry& Process(size_t i) const { return store_.processes()[i]; }
  bool Several(int32_t rank) const { return index_.ranks[rank].processes.size() > 1; }

  // A rank directory or a pass file opened alone.
  bool OneRankOnly() const {
    return store_.processes().size() == 1 && store_.processes()[0].directory.empty();
  }

  void MakeRanks() {
    int64_t world = 1;
    for (const size_t i : members_) {
      const io::IdentitySection& identity = Process(i).identity;
      world = std::max({world, int64_t{identity.world}, int64_t{identity.rank} + 1});
    }
    const int64_t most =
        std::max(kMostRanks, kMostRanksPerProcess * static_cast<int64_t>(members_.size()));
    if (world > most) {
      index_.damage.push_back({store_.run(), 0,
                               fmt::format("world: {} ranks, with {} processes; only the first {} "
                                           "ranks are looked at",
                                           world, members_.size(), most)});
    }
    index_.world = static_cast<int32_t>(std::min(world, most));
    index_.ranks.resize(static_cast<size_t>(index_.world));
    for (int32_t rank = 0; rank < index_.world; ++rank) {
      index_.ranks[rank].rank = rank;
      index_.ranks[rank].how = OneRankOnly() ? "not in this directory" : kNeverStarted;
    }
    for (const size_t i : members_) {
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
    state->how = LeftNothing(process) ? kLeftNothing : StateOf(process.identity);
    state->lost |= state->how != kStillRunning;
  }

  std::string StateOf(const io::IdentitySection& identity) const {
    if (OneRankOnly() && identity.job_key.empty()) return "without its manifest";
    if (options_.is_running) {
      if (const auto running = options_.is_running(identity))
        return *running ? kStillRunning : "killed";
    }
    return "killed or still running";
  }

  void AddPasses(size_t i, io::RankState* state) {
    const io::ProcessEntry& process = Process(i);
    const StepNumbers numbers(process);
    std::set<std::string> files;  // a packed one has several passes
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
      index_.files += !entry.file.empty() && files.insert(entry.file).second ? 1 : 0;
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
    NotKept& of_rank = not_kept_[static_cast<SkipReason>(count.reason)][rank];
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
    for (const io::OperatorCountSection& count : process.counts) {
      OperatorRanks* ranks = Operator(count.root, count.path, count.op);
      io::OperatorCoverage& coverage = index_.operators[ranks->place];
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
      auto& [level, ranks] = notes_[note.text];
      if (ranks.empty()) note_order_.push_back(&note.text);
      level = std::max(level, note.level);
      ranks.insert(process.identity.rank);
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
    for (const auto& [reason, by_rank] : not_kept_) {
      uint64_t records = 0;
      std::set<int32_t> ranks;
      for (const auto& [rank, of_rank] : by_rank) {
        records += of_rank.records;
        ranks.insert(rank);
      }
      index_.not_kept.emplace_back(fmt::format("{} ({})", ToString(reason), RankList(ranks)),
                                   records);
    }
    for (const std::string* text : note_order_) {
      const auto& ranks = notes_[*text].second;
      index_.notes.push_back(index_.world == 1 ? *text
                                               : fmt::format("{}: {}", RankList(ranks), *text));
    }
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

  void FindHoles() {
    HolesOfRanks();
    HolesOfFiles();
    HolesOfPasses();
    HolesOfRecords();
    for (const io::RuleCoverage& rule : index_.rules) {
      // A rule that keeps nothing loses nothing.
      if (rule.rule.matched != 0 || rule.rule.text.find("level: off") != std::string::npos)
        continue;
      index_.holes.push_back(
          fmt::format("rule {} '{}' matched nothing", rule.rule.rule,
                      rule.rule.selector.empty() ? rule.rule.text : rule.rule.selector));
    }
    size_t note = index_.notes.size() - note_order_.size();
    for (const std::string* text : note_order_) {
      const auto& [level, ranks] = notes_[*text];
      if (level >= kNoteOfALoss && std::any_of(ranks.begin(), ranks.end(), Listed()))
        index_.holes.push_back(index_.notes[note]);
      ++note;
    }
    HoleOfAnEmptyRun();
  }

  // Whether the holes of a rank are listed.
  std::function<bool(int32_t)> Listed() const {
    return options_.holes_of ? options_.holes_of : [](int32_t) { return true; };
  }

  void HolesOfFiles() {
    const auto listed = Listed();
    std::set<std::string> of_others;
    for (const size_t i : members_) {
      if (listed(Process(i).identity.rank)) continue;
      for (const io::Damage& damage : Process(i).damage) of_others.insert(damage.file);
    }
    for (const io::Damage& damage : index_.damage) {
      if (of_others.contains(damage.file)) continue;
      index_.holes.push_back(
          fmt::format("{} at byte {}: {}", damage.file, damage.offset, damage.what));
    }
  }

  // Records that are missing, with where they are: the same of several ranks in one line.
  void HolesOfRecords() {
    const auto listed = Listed();
    for (const auto& [reason, by_rank] : not_kept_) {
      if (reason == SkipReason::kMaxRecords) continue;  // as asked
      uint64_t records = 0;
      std::set<int32_t> ranks;
      std::set<uint64_t> steps;
      for (const auto& [rank, of_rank] : by_rank) {
        if (!listed(rank)) continue;
        records += of_rank.records;
        ranks.insert(rank);
        steps.insert(of_rank.steps.begin(), of_rank.steps.end());
      }
      if (records == 0) continue;
      index_.holes.push_back(fmt::format(
          "{}, step{} {}: {} not kept as asked: {}", RankList(ranks), steps.size() == 1 ? "" : "s",
          RangesText({steps.begin(), steps.end()}), Plural(records, "record"), ToString(reason)));
    }
  }

  // All ranks ended in order, and none wrote anything: that is not what anyone asked for.
  void HoleOfAnEmptyRun() {
    const auto wrote = [&](size_t i) {
      return !Process(i).passes.empty() || !Process(i).overwritten.empty();
    };
    if (!index_.holes.empty() || std::any_of(members_.begin(), members_.end(), wrote)) return;
    const bool selected = std::any_of(index_.ranks.begin(), index_.ranks.end(),
                                      [](const io::RankState& rank) { return rank.selected; });
    index_.holes.push_back(selected ? "nothing was written: no selected step began"
                                    : fmt::format("nothing was written: `ranks` selects none of {}",
                                                  Plural(index_.ranks.size(), "rank")));
  }

  void HolesOfRanks() {
    const auto listed = Listed();
    std::set<int32_t> never;
    for (const io::RankState& state : index_.ranks) {
      if (state.processes.empty() && listed(state.rank)) never.insert(state.rank);
    }
    if (!never.empty() && OneRankOnly()) {
      index_.holes.push_back("this is one rank's directory; the run is above it");
    } else if (!never.empty()) {
      index_.holes.push_back(fmt::format("{} never started under tdump", RankList(never)));
    }
    for (const io::RankState& state : index_.ranks) {
      const bool pass_file = OneRankOnly() && index_.job_key.empty();
      if (state.closed || state.processes.empty() || pass_file || !listed(state.rank)) continue;
      for (const size_t i : state.processes) {
        const io::ProcessEntry& process = Process(i);
        if (process.close) continue;
        const std::string who =
            fmt::format("rank {} ({}pid {})", state.rank,
                        process.identity.host.empty() ? "" : process.identity.host + ", ",
                        process.identity.pid);
        index_.holes.push_back(LeftNothing(process)
                                   ? fmt::format("{} {}", who, kLeftNothing)
                                   : fmt::format("{} wrote no closing record: {}, last step {}",
                                                 who, state.how, state.last_step));
      }
    }
  }

  void HolesOfPasses() {
    const auto listed = Listed();
    for (const io::IndexedPass& pass : index_.passes) {
      const io::ProcessEntry& process = Process(pass.process);
      const io::PassEntry& entry = process.passes[pass.pass];
      if (!listed(process.identity.rank)) continue;
      const std::string who = NameOf(process, Several(process.identity.rank));
      if (!entry.error.empty()) {
        index_.holes.push_back(fmt::format("{}, step {}: {}", who, pass.global_step, entry.error));
      } else if (entry.part && StateOf(process.identity) != kStillRunning) {
        index_.holes.push_back(fmt::format("{}, step {}: the pass is unfinished ({})", who,
                                           pass.global_step, entry.file));
      } else if (pass.pass + 1 == process.passes.size() && EndedInItsLastPass(process)) {
        index_.holes.push_back(
            fmt::format("{}, step {}: may be cut, the process ended in or after it: {}", who,
                        pass.global_step, process.close->how));
      }
    }
  }

  const io::PassStore& store_;
  const MergeOptions& options_;
  io::RunIndex index_;
  std::vector<size_t> members_;  // processes of this generation, by rank
  std::unordered_map<std::string, OperatorRanks> operators_;
  std::map<std::tuple<uint32_t, uint32_t, std::string>, size_t> rules_;
  struct NotKept {
    uint64_t records = 0;
    std::set<uint64_t> steps;
  };
  std::map<SkipReason, std::map<int32_t, NotKept>> not_kept_;           // by rank
  std::map<std::string, std::pair<uint8_t, std::set<int32_t>>> notes_;  // text -> level, ranks
  std::vector<const std::string*> note_order_;
  std::set<std::string> transports_;
  std::set<int32_t> silent_;
};

}  // namespace

bool LeftNothing(const io::ProcessEntry& process) {
  return process.identity.job_key.empty() && process.passes.empty() && !process.directory.empty();
}

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
