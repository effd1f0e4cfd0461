#include "coordinator/coverage_ways.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "coordinator/coverage.h"
#include "coordinator/coverage_names.h"
#include "coordinator/never_called.h"
#include "core/key.h"
#include "core/text.h"

namespace tdump::coordinator {
namespace {

constexpr std::string_view kNever = "never", kNotThere = "passes not there";

// Begins of the calls of a pass of which a value was left out since a CUDA graph was captured.
std::unordered_set<uint64_t> GraphedCalls(const io::PassReader& reader,
                                          const io::PassEntry& entry) {
  const auto is_graphed = [](const io::ReasonCount& count) {
    return static_cast<SkipReason>(count.reason) == SkipReason::kCompiled && count.count != 0;
  };
  std::unordered_set<uint64_t> calls;
  // What was not kept is in the manifest, of a pass that ended.
  if (entry.listed && std::none_of(entry.not_kept.begin(), entry.not_kept.end(), is_graphed))
    return calls;
  (void)reader.ForEachRecordMeta([&](const io::Record& record) {
    if (record.reason == SkipReason::kCompiled) calls.insert(record.call_begin);
    return true;
  });
  return calls;
}

// In any way.
StepRanges StepsOf(const OperatorWays& op) {
  std::set<uint64_t> steps;
  for (const auto& [way, seen] : op.seen) {
    for (const auto& [first, last] : seen.steps.ranges()) {
      for (uint64_t i = 0; i <= last - first; ++i) steps.insert(first + i);
    }
  }
  StepRanges ranges;
  for (const uint64_t step : steps) ranges.Add(step);
  return ranges;
}

class Finder {
 public:
  Finder(const io::PassStore& store, const io::RunIndex& index) : store_(store), index_(index) {
    for (const io::OperatorCoverage& op : index.operators) {
      if (op.ranks_expected == 0 || IsIdleContainer(op)) continue;
      places_.emplace(op.name, operators_.size());
      operators_.push_back({.name = op.name, .called = op.ranks_called != 0});
    }
  }

  std::vector<OperatorWays> Find() {
    for (const io::IndexedPass& pass : index_.passes) ReadPass(pass);
    const NeverCalled never(store_, index_);
    for (OperatorWays& op : operators_) {
      if (op.seen.empty())
        op.why =
            op.called ? "its passes are not there any more, or cannot be read" : never.Why(op.name);
      else
        FillNotSeen(never.InsideOf(op.name), &op);
    }
    return std::move(operators_);
  }

 private:
  void FillNotSeen(const NeverCalled::Compiled& compiled, OperatorWays* op) const {
    const auto place = places_.find(compiled.module);
    if (compiled.why.empty() || place == places_.end()) return;
    const StepRanges around = StepsOf(operators_[place->second]);
    op->not_seen = around.Without(StepsOf(*op));
    if (!op->not_seen.empty()) op->why = compiled.why;
  }

  void ReadPass(const io::IndexedPass& place) {
    const io::ProcessEntry& process = store_.processes()[place.process];
    const io::PassEntry& entry = process.passes[place.pass];
    const auto reader = store_.OpenPass(process, entry);
    if (!reader.ok()) return;
    const std::unordered_set<uint64_t> graphed = GraphedCalls(**reader, entry);
    std::unordered_map<OperatorId, OperatorWays*> known;  // of this pass
    (void)(*reader)->ForEachCall([&](const io::CallRecord& record) {
      const auto [found, is_new] = known.try_emplace(record.call.op, nullptr);
      if (is_new) found->second = Operator(record);
      if (found->second == nullptr) return true;
      const Way way = graphed.contains(record.call.begin) ? Way::kGraphed
                      : record.call.compiled              ? Way::kCompiled
                                                          : Way::kEager;
      SeenBy& seen = found->second->seen[way];
      ++seen.calls;
      seen.steps.Add(place.global_step);
      return true;
    });
  }

  OperatorWays* Operator(const io::CallRecord& record) {
    const auto place = places_.find(PlainName(record.root, record.path, record.op));
    return place == places_.end() ? nullptr : &operators_[place->second];
  }

  const io::PassStore& store_;
  const io::RunIndex& index_;
  std::vector<OperatorWays> operators_;
  std::unordered_map<std::string, size_t> places_;  // by name
};

// "eager and compiled".
std::string WordsOf(const OperatorWays& op) {
  std::string text;
  for (const auto& [way, seen] : op.seen)
    text += (text.empty() ? "" : " and ") + std::string(ToString(way));
  if (!op.not_seen.empty()) return text + " in part";
  return !text.empty() ? text : std::string(op.called ? kNotThere : kNever);
}

// "eager in step 0, compiled in steps 1-2"; steps go without saying where there is one way.
std::string LabelOf(const OperatorWays& op) {
  if (op.seen.size() < 2 && op.not_seen.empty()) return WordsOf(op);
  std::string text;
  for (const auto& [way, seen] : op.seen)
    text += fmt::format("{}{} in {}", text.empty() ? "" : ", ", ToString(way), seen.steps.Text());
  if (!op.not_seen.empty()) text += fmt::format(", not seen in {}", op.not_seen.Text());
  return text;
}

}  // namespace

std::string_view ToString(Way way) {
  switch (way) {
    case Way::kEager:
      return "eager";
    case Way::kCompiled:
      return "compiled";
    case Way::kGraphed:
      return "graphed";
  }
  return "unknown";
}

void StepRanges::Add(uint64_t step) {
  if (!ranges_.empty() && (step <= ranges_.back().second || step - ranges_.back().second == 1))
    ranges_.back().second = std::max(ranges_.back().second, step);
  else
    ranges_.emplace_back(step, step);
}

StepRanges StepRanges::Without(const StepRanges& others) const {
  StepRanges rest;
  auto other = others.ranges_.begin();
  for (const auto& [first, last] : ranges_) {
    for (uint64_t i = 0; i <= last - first; ++i) {
      const uint64_t step = first + i;  // the last may be the largest number
      while (other != others.ranges_.end() && other->second < step) ++other;
      if (other == others.ranges_.end() || step < other->first) rest.Add(step);
    }
  }
  return rest;
}

std::string StepRanges::Text() const {
  constexpr size_t kMost = 8;
  const bool one = ranges_.size() == 1 && ranges_[0].first == ranges_[0].second;
  std::string text = one ? "step " : "steps ";
  for (size_t i = 0; i < std::min(ranges_.size(), kMost); ++i) {
    const auto& [first, last] = ranges_[i];
    text += fmt::format("{}{}", i == 0 ? "" : ",", first);
    if (last != first) text += fmt::format("-{}", last);
  }
  if (ranges_.size() > kMost) text += fmt::format(" and more up to {}", ranges_.back().second);
  return text;
}

std::vector<OperatorWays> FindWays(const io::PassStore& store, const io::RunIndex& index) {
  return Finder(store, index).Find();
}

std::vector<std::pair<std::string, uint64_t>> CountWays(
    const std::vector<OperatorWays>& operators) {
  std::map<std::string, uint64_t> counts;
  for (const OperatorWays& op : operators) ++counts[WordsOf(op)];
  std::vector<std::pair<std::string, uint64_t>> sorted;
  for (const std::string_view last : {kNever, kNotThere}) {
    if (auto of = counts.extract(std::string(last))) sorted.emplace_back(of.key(), of.mapped());
  }
  const size_t tail = sorted.size();
  sorted.insert(sorted.begin(), counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end() - static_cast<ptrdiff_t>(tail),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return sorted;
}

std::string WaysText(const std::vector<OperatorWays>& operators, size_t most) {
  if (operators.empty()) return "";
  std::string text;
  for (const auto& [words, count] : CountWays(operators))
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", CountText(count), words);
  text = fmt::format("  {:<9}  {}: {}\n", "seen", Plural(operators.size(), "operator"), text);

  struct Group {
    std::string label, why;
    std::vector<std::string> names;
  };
  std::vector<Group> groups;
  std::map<std::pair<std::string, std::string>, size_t> places;
  for (const OperatorWays& op : operators) {
    const auto [found, is_new] = places.try_emplace({LabelOf(op), op.why}, groups.size());
    if (is_new) groups.push_back({found->first.first, op.why, {}});
    groups[found->second].names.push_back(op.name);
  }
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    return a.why.empty() > b.why.empty();  // what was never called, last
  });
  for (const Group& group : groups) {
    text += fmt::format("  {:<9}  {}", group.label, Listed(FoldNames(group.names), most));
    text += group.why.empty() ? "\n" : fmt::format("\n  {:<9}  - {}\n", "", Printable(group.why));
  }
  return text;
}

std::map<std::string, std::string> RootClasses(const io::PassStore& store,
                                               const io::RunIndex& index) {
  constexpr uint64_t kMostRecords = 100'000;
  std::map<std::string, std::string> classes;
  if (index.passes.empty()) return classes;
  const io::IndexedPass& first = index.passes.front();
  const io::ProcessEntry& process = store.processes()[first.process];
  const auto reader = store.OpenPass(process, process.passes[first.pass]);
  if (!reader.ok()) return classes;
  uint64_t seen = 0;
  (void)(*reader)->ForEachRecordMeta([&](const io::Record& record) {
    const Key& key = record.key;
    if (key.path == "." && key.op.empty() && !record.cls.empty())
      classes.try_emplace(PlainName(key.root, key.path, key.op), record.cls);
    return ++seen < kMostRecords;
  });
  return classes;
}

}  // namespace tdump::coordinator
