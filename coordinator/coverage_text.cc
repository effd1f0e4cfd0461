#include "coordinator/coverage_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "coordinator/closing.h"
#include "coordinator/coverage.h"
#include "coordinator/coverage_names.h"
#include "coordinator/merge.h"
#include "coordinator/rule_hint.h"
#include "core/text.h"

namespace tdump::coordinator {
namespace {

constexpr size_t kLineBudget = 150;

std::string Steps(const std::set<uint64_t>& steps) {
  return RangesText({steps.begin(), steps.end()});
}

class Writer {
 public:
  Writer(const io::PassStore& store, const io::RunIndex& index, const CoverageOptions& options)
      : store_(store),
        index_(index),
        options_(options),
        shown_(options.shown.empty() ? index.run : options.shown),
        word_(ShellWord(Printable(shown_))),
        ranks_(CoverRanks(store, index)),
        steps_(CoverSteps(ranks_, index)),
        written_(steps_.all()),
        operators_(SummariseOperators(store, index)),
        recording_(RecordingRanks(index)),
        selected_(steps_.ranks) {}

  std::string Write() {
    Head();
    if (index_.ranks.empty()) {
      for (const std::string& hole : index_.holes) Line("", Printable(hole));
      return text_;
    }
    Line("steps", StepsLine());
    const std::string ranks = RanksLine(), operators = OperatorsLine();
    if (operators.empty()) {
      Line("ranks", ranks);
    } else if (!deviants_ && ranks.size() + operators.size() < kLineBudget) {
      Line("ranks", ranks + "; operators: " + operators);
    } else {
      Line("ranks", ranks);
      Line("operators", operators);
    }
    NotKept();
    Ring();
    Cost();
    Selectors();
    Lines("notes", index_.notes);
    Damage();
    Line("next", Next());
    return text_;
  }

 private:
  void Line(std::string_view label, const std::string& text) {
    text_ += fmt::format("  {:<9}  {}\n", label, text);
  }
  void Lines(std::string_view label, const std::vector<std::string>& items) {
    for (size_t i = 0; i < std::min(items.size(), options_.most); ++i)
      Line(i == 0 ? label : "", Printable(items[i]));
    if (items.size() > options_.most) {
      Line("", fmt::format("and {} more: tdump-view {} --coverage",
                           CountText(items.size() - options_.most), word_));
    }
  }

  void Head() {
    const Verdict verdict = VerdictOf(index_);
    std::string word(ToString(verdict));
    if (options_.colour) {
      const char* code = verdict == Verdict::kComplete  ? "1;32"
                         : verdict == Verdict::kRunning ? "1;33"
                                                        : "1;31";
      word = fmt::format("\033[{}m{}\033[0m", code, word);
    }
    text_ = fmt::format("tdump: {}  {}", word, Printable(shown_));
    if (shown_ == "latest" && store_.run() != shown_)
      text_ += fmt::format(" = {}", Printable(store_.run()));
    if (index_.generation != 0) text_ += fmt::format("  generation {}", index_.generation);
    if (index_.files != 0)
      text_ += fmt::format("  {} in {}", BytesText(index_.bytes), Plural(index_.files, "file"));
    text_ += "\n";
  }

  std::string StepsLine() const {
    const std::set<uint64_t>& whole = steps_.everywhere;
    const uint64_t seen = std::max<uint64_t>(index_.steps_seen, written_.size());
    const bool only_begun = whole.empty() && !written_.empty() && selected_ == 1;
    std::string text = !whole.empty()     ? Steps(whole) + " written"
                       : written_.empty() ? "none written"
                       : selected_ > 1    ? "none written on every rank"
                                          : Steps(written_) + " begun, none whole";
    text += only_begun ? fmt::format(" ({} seen{})", CountText(seen), Modes())
                       : fmt::format(" ({} of {} seen{})", CountText(whole.size()), CountText(seen),
                                     Modes());
    if (!only_begun) text += StepsInPart();
    std::vector<std::string> extra;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      if (!ranks_[i].extra.empty())
        extra.push_back(
            fmt::format("rank {} ran step {} more than the others", i, Steps(ranks_[i].extra)));
    }
    text += LeftOut();
    text += Overwritten();
    text += Agreement();
    if (!extra.empty()) text += "; extra: " + Listed(extra, options_.most, "; ");
    return text;
  }

  // Steps that are not whole on every rank: "; 3-9 whole on 1 of 2 ranks".
  std::string StepsInPart() const {
    std::vector<std::string> items;
    for (auto part = steps_.in_part.rbegin(); part != steps_.in_part.rend(); ++part) {
      const auto& [ranks, steps] = *part;
      items.push_back(selected_ == 1 ? Steps(steps) + " not whole"
                      : ranks == 0   ? Steps(steps) + " whole on no rank"
                                     : fmt::format("{} whole on {} of {}", Steps(steps),
                                                   CountText(ranks), Plural(selected_, "rank")));
    }
    return items.empty() ? "" : "; " + Listed(items, options_.most, "; ");
  }

  // "; BEFORE 3-5 BEHIND on 2 ranks" of the steps that any rank has in `list`; "" where none has.
  std::string OnRanks(std::string_view before, std::set<uint64_t> RankCoverage::*list,
                      std::string_view behind) const {
    std::set<uint64_t> steps;
    size_t ranks = 0;
    for (const RankCoverage& rank : ranks_) {
      steps.insert((rank.*list).begin(), (rank.*list).end());
      ranks += (rank.*list).empty() ? 0 : 1;
    }
    if (steps.empty()) return "";
    const std::string where =
        ranks_.size() == 1 ? "" : fmt::format(" on {}", Plural(ranks, "rank"));
    return fmt::format("; {}{}{}{}", before, Steps(steps), behind, where);
  }

  std::string LeftOut() const { return OnRanks("nothing of ", &RankCoverage::left_out, ""); }
  std::string Overwritten() const {
    return OnRanks("", &RankCoverage::overwritten, " overwritten by the ring");
  }

  // Job iterations where the job numbers its steps otherwise, and modes where there are several.
  std::string Modes() const {
    std::set<uint64_t> job;
    std::set<uint64_t> by_mode[4];
    bool differs = false;
    size_t modes = 0;
    for (const io::IndexedPass& pass : index_.passes) {
      const io::PassInfo& info = store_.processes()[pass.process].passes[pass.pass].info;
      if (info.job_step >= 0) job.insert(static_cast<uint64_t>(info.job_step));
      differs |= info.job_step >= 0 && static_cast<uint64_t>(info.job_step) != pass.global_step;
      auto& steps = by_mode[static_cast<size_t>(info.mode) & 3];
      if (steps.empty()) ++modes;
      steps.insert(pass.global_step);
    }
    std::string text;
    if (differs) text += fmt::format("; the job's own numbers: {}", Steps(job));
    for (size_t mode = 0; mode < 4 && modes > 1; ++mode) {
      if (by_mode[mode].empty()) continue;
      text += fmt::format("; {} {}", tdump::ToString(static_cast<StepMode>(mode)),
                          Steps(by_mode[mode]));
    }
    return text;
  }

  std::string Agreement() const {
    if (index_.world == 1) return "";
    std::set<uint64_t> agreed;
    bool first = true;
    size_t started = 0;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      if (index_.ranks[i].processes.empty()) continue;
      ++started;
      if (first) {
        agreed = ranks_[i].agreed;
      } else {
        std::set<uint64_t> both;
        std::set_intersection(agreed.begin(), agreed.end(), ranks_[i].agreed.begin(),
                              ranks_[i].agreed.end(), std::inserter(both, both.end()));
        agreed = std::move(both);
      }
      first = false;
    }
    // A job that was killed left its agreements, but not how it came by them.
    std::string how = "lag " + Plural(index_.max_lag, "step");
    if (!index_.transport.empty() && index_.transport != "none") {
      how = fmt::format("transport {}, {}", Printable(index_.transport), how);
    } else if (agreed.empty()) {
      how = "no transport";
    }
    if (agreed.empty()) return fmt::format("; not agreed, each rank counts for itself ({})", how);
    return fmt::format("; {} agreed on {}{} ({})", Steps(agreed),
                       started == index_.ranks.size() ? "all " : "", Plural(started, "rank"), how);
  }

  bool IsWhole(size_t rank) const {
    return ranks_[rank].whole == written_ && ranks_[rank].torn.empty();
  }

  // Of a rank that never did it is not known whether it is selected.
  bool AllStarted() const {
    return std::none_of(index_.ranks.begin(), index_.ranks.end(),
                        [](const io::RankState& rank) { return rank.processes.empty(); });
  }

  // Sets deviants_.
  std::string RanksLine() {
    size_t whole = 0;
    for (size_t i = 0; i < ranks_.size(); ++i) whole += recording_[i] && IsWhole(i) ? 1 : 0;
    const std::string all_steps = "all " + Plural(written_.size(), "step");
    std::string text;
    if (selected_ == 0 && AllStarted()) {
      text = fmt::format("none of {} is selected (ranks), so nothing was written",
                         Plural(ranks_.size(), "rank"));
    } else if (written_.empty()) {
      text = fmt::format("none of {} wrote a pass", Plural(ranks_.size(), "rank"));
    } else if (selected_ == ranks_.size()) {
      text = fmt::format("{} of {} wrote {}", CountText(whole), CountText(selected_), all_steps);
    } else {
      text = fmt::format("{} of {} selected ({} of {} in the job) wrote {}", CountText(whole),
                         CountText(selected_), Selected(), CountText(ranks_.size()), all_steps);
    }
    const std::string more = Fates();
    deviants_ = !more.empty();
    return deviants_ ? text + "; " + more : text;
  }

  std::string FateOf(size_t rank) const {
    const io::RankState& state = index_.ranks[rank];
    if (state.processes.empty() || LeftNothing(store_.processes()[state.processes.back()]))
      return state.how;
    if (!state.closed)
      return fmt::format("{}{} {}", state.how, Host(state), WhereItWas(state, ranks_[rank]));
    const auto& [torn, left_out] = std::tie(ranks_[rank].torn, ranks_[rank].left_out);
    const std::string lacking =
        fmt::format("in step{} {}", torn.size() == 1 ? "" : "s", Steps(torn));
    if (state.how.ends_with(kLastStepOpen) && !torn.empty()) return Failed(state, lacking);
    if (!torn.empty() || !left_out.empty()) {
      return fmt::format("could not write all{}{}", torn.empty() ? "" : " " + lacking,
                         left_out.empty() ? "" : ", nothing of " + Steps(left_out));
    }
    return ranks_[rank].whole.empty()
               ? fmt::format("ended without a pass ({})", state.how)
               : fmt::format("ended after step {} ({})", state.last_step, state.how);
  }

  // Of a rank that wrote no closing record: the step that it had begun, and earlier ones that its
  // writer had not come to the end of.
  static std::string WhereItWas(const io::RankState& state, const RankCoverage& covered) {
    const uint64_t last = state.last_step;
    if (last == 0 && covered.whole.empty() && covered.torn.empty())
      return "before a step was written";
    if (covered.whole.contains(last)) return fmt::format("after step {}", last);
    std::set<uint64_t> earlier = covered.torn;
    earlier.erase(last);
    std::string text = fmt::format("in step {}", last);
    if (!earlier.empty())
      text +=
          fmt::format(" with step{} {} not whole", earlier.size() == 1 ? "" : "s", Steps(earlier));
    return text;
  }

  static std::string Failed(const io::RankState& state, const std::string& where) {
    const size_t end = state.how.size() - kLastStepOpen.size();
    return fmt::format("ended {}, which may not be whole ({})", where, state.how.substr(0, end));
  }

  std::string Host(const io::RankState& state) const {
    const std::string& host = store_.processes()[state.processes.front()].identity.host;
    return host.empty() ? "" : fmt::format(" on {}", host);
  }

  // Which ranks record, where that is short.
  std::string Selected() const {
    std::vector<uint64_t> numbers;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      if (recording_[i]) numbers.push_back(i);
    }
    constexpr size_t kShort = 40;
    const std::string ranges = RangesText(numbers);
    return ranges.size() > kShort
               ? CountText(numbers.size())
               : fmt::format("rank{} {}", numbers.size() == 1 ? "" : "s", ranges);
  }

  // Ranks that did not do all they should, those with the same fate
  // together: "ranks 4-7 never started".
  std::string Fates() const {
    std::vector<std::pair<std::string, std::vector<uint64_t>>> fates;
    std::map<std::string, size_t> places;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      const io::RankState& state = index_.ranks[i];
      if (state.closed && (IsWhole(i) || !state.selected)) continue;
      const auto [found, is_new] = places.emplace(FateOf(i), fates.size());
      if (is_new) fates.push_back({found->first, {}});
      fates[found->second].second.push_back(i);
    }
    std::vector<std::string> items;
    for (const auto& [fate, ranks] : fates) {
      items.push_back(
          fmt::format("rank{} {} {}", ranks.size() == 1 ? "" : "s", RangesText(ranks), fate));
    }
    return Listed(items, options_.most, "; ");
  }

  // Which does not know what was selected.
  bool IsOnePassFile() const {
    const std::vector<io::ProcessEntry>& processes = store_.processes();
    return processes.size() == 1 && processes[0].directory.empty() &&
           processes[0].identity.source.empty();
  }

  // No operator is selected by its calls: parameters and state have none.
  std::string WithoutCalls() const {
    const bool matched = std::any_of(
        index_.rules.begin(), index_.rules.end(),
        [](const io::RuleCoverage& r) { return r.rule.matched > 0 && !IsOff(r.rule.text); });
    return matched ? "no calls selected, parameters and state only" : "none selected was seen";
  }

  // "" where it is not known.
  std::string OperatorsLine() const {
    if (operators_.selected == 0) return IsOnePassFile() ? "" : WithoutCalls();
    std::string text = fmt::format("{} selected, {} seen, {} complete on every rank",
                                   CountText(operators_.selected), CountText(operators_.seen),
                                   CountText(operators_.complete));
    if (operators_.but_for_steps != 0 && !steps_.everywhere.empty())
      text += fmt::format(", {} more in step{} {}", CountText(operators_.but_for_steps),
                          steps_.everywhere.size() == 1 ? "" : "s", Steps(steps_.everywhere));
    text += OnSomeRanks();
    if (!operators_.never_called.empty())
      text += "; never called: " + Listed(FoldNames(operators_.never_called), options_.most, ", ");
    return text;
  }

  // "; called on ranks 0,2-3 of 4 only: b".
  std::string OnSomeRanks() const {
    std::vector<std::string> items;
    for (const auto& [ranks, names] : operators_.on_some_ranks)
      items.push_back(fmt::format("called on rank{} {} of {} only: {}",
                                  ranks.first.size() == 1 ? "" : "s", RangesText(ranks.first),
                                  CountText(ranks.second),
                                  Listed(FoldNames(names), options_.most, ", ")));
    return items.empty() ? "" : "; " + Listed(items, options_.most, "; ");
  }

  void NotKept() {
    std::vector<std::string> items;
    for (const auto& [why, records] : index_.not_kept)
      items.push_back(fmt::format("{}: {}", Plural(records, "record"), why));
    Lines("not kept", items);
  }

  // What the ring overwrote of each operator, those of which it was most first: "1,200 records
  // overwritten: 300 each of a, b; 600 of c".
  void Ring() {
    std::map<uint64_t, std::vector<std::string>, std::greater<>> names;
    uint64_t records = 0;
    for (const io::OperatorCoverage& op : index_.operators) {
      if (op.overwritten != 0) names[op.overwritten].push_back(op.name);
      records += op.overwritten;
    }
    if (records == 0) return;
    std::vector<std::string> items;
    for (const auto& [count, of] : names)
      items.push_back(fmt::format("{}{} of {}", CountText(count), of.size() > 1 ? " each" : "",
                                  Listed(FoldNames(of), options_.most, ", ")));
    Line("ring", fmt::format("{} overwritten: {}", Plural(records, "record"),
                             Listed(items, options_.most, "; ")));
  }

  // Time that the job's threads waited for room in the arena.
  void Cost() {
    uint64_t sum = 0, most = 0;
    size_t slowest = 0;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      sum += ranks_[i].blocked_ns;
      if (ranks_[i].blocked_ns > most) slowest = i;
      most = std::max(most, ranks_[i].blocked_ns);
    }
    constexpr uint64_t kWorthTelling = 50'000'000;
    if (most < kWorthTelling) return;
    Line("cost",
         fmt::format("waited {:.1f} s for room in memory; most on rank {}, {:.1f} s",
                     static_cast<double>(sum) / 1e9, slowest, static_cast<double>(most) / 1e9));
  }

  void Selectors() {
    std::vector<std::string> items;
    for (const io::RuleCoverage& rule : index_.rules) {
      if (rule.rule.matched != 0) continue;
      std::string item = RuleLabel(rule.rule.rule, rule.rule.text, rule.rule.selector);
      item += " matched nothing";
      if (!rule.near_names.empty())
        item += ". Near: " + Listed(FoldNames(rule.near_names), options_.most, ", ");
      items.push_back(std::move(item));
    }
    Lines("selectors", items);
  }

  void Damage() {
    std::vector<std::string> items;
    for (const io::Damage& damage : index_.damage)
      items.push_back(fmt::format("{}, byte {}: {}", damage.file, damage.offset, damage.what));
    Lines("damage", items);
  }

  std::string Next() const {
    const std::string& run = word_;
    if (!index_.damage.empty()) return fmt::format("tdump-view {} --verify", run);
    const char* view = index_.complete() ? "--names" : "--coverage";
    return fmt::format("tdump-view {} {}    |    tdump-diff BASE {}", run, view, run);
  }

  const io::PassStore& store_;
  const io::RunIndex& index_;
  const CoverageOptions& options_;
  const std::string shown_;
  const std::string word_;  // the same in a command line
  const std::vector<RankCoverage> ranks_;
  const StepCoverage steps_;
  const std::set<uint64_t> written_;  // whole or not
  const OperatorSummary operators_;
  const std::vector<bool> recording_;  // by rank
  const size_t selected_;              // of them
  bool deviants_ = false;
  std::string text_;
};

}  // namespace

std::string CoverageText(const io::PassStore& store, const io::RunIndex& index,
                         const CoverageOptions& options) {
  return Writer(store, index, options).Write();
}

}  // namespace tdump::coordinator
