#include "compare/step_align.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "compare/token_ids.h"
#include "core/key.h"
#include "core/text.h"
#include "io/hash.h"

namespace tdump::compare {
namespace {

constexpr size_t kMostInputs = 64;   // of a step and rank
constexpr size_t kMostSteps = 4096;  // that are aligned

bool IsTokens(const io::Record& record) {
  return record.key.role == Role::kInput && record.key.op.empty() && IsOfIntegers(record.dtype) &&
         record.numel() > 0;
}

std::string Hex(const io::Hash128& hash) {
  std::string text;
  for (const uint8_t byte : hash) text += fmt::format("{:02x}", byte);
  return text;
}

// Positions that count from 0 on (again and again), and masks: they tell no step from another.
bool SaysNothing(const std::vector<int64_t>& values) {
  bool positions = true, mask = true;
  for (size_t i = 0; i < values.size(); ++i) {
    positions &= values[i] == 0 || (i > 0 && values[i] == values[i - 1] + 1);
    mask &= values[i] == 0 || values[i] == 1;
  }
  return positions || mask;
}

// One argument over the ranks of a step.
struct Argument {
  std::vector<std::vector<int64_t>> values;  // distinct, by rank
  std::set<std::string> hashes;
  bool complete = true;  // every rank's values are there
  bool tells = false;
};

struct Seen {
  std::map<std::string, Argument> roots, others;
};

void Add(const StepView& view, const io::Record& record, Seen* seen) {
  auto& arguments = record.key.path == "." ? seen->roots : seen->others;
  if (arguments.size() == kMostInputs) return;
  Argument& argument = arguments[ToText(record.key)];
  if (record.hash) argument.hashes.insert("hash " + Hex(*record.hash));
  std::vector<int64_t> values = IntegersOf(view, record);
  argument.complete &= !values.empty();
  argument.tells |= values.empty() || !SaysNothing(values);
  if (std::find(argument.values.begin(), argument.values.end(), values) == argument.values.end())
    argument.values.push_back(std::move(values));
}

std::vector<std::string> ContentsOf(const Seen& seen) {
  std::set<std::string> contents;
  const auto& arguments = seen.roots.empty() ? seen.others : seen.roots;
  const bool any_tells = std::any_of(arguments.begin(), arguments.end(),
                                     [](const auto& entry) { return entry.second.tells; });
  for (const auto& [key, argument] : arguments) {
    if (any_tells && !argument.tells) continue;
    if (argument.hashes.size() == 1) contents.insert(*argument.hashes.begin());
    if (!argument.complete) continue;
    std::vector<int64_t> all;
    for (const auto& values : argument.values) all.insert(all.end(), values.begin(), values.end());
    contents.insert("values " + Hex(io::HashPayload(std::as_bytes(std::span(all)))));
  }
  return {contents.begin(), contents.end()};
}

// Contents that every one of several steps has: they tell no step from another.
std::set<std::string> Constant(const std::vector<StepInputs>& steps) {
  std::set<std::string> constant;
  if (steps.size() < 2) return constant;
  for (const std::string& content : steps.front().contents) {
    const auto has = [&](const StepInputs& step) {
      return std::binary_search(step.contents.begin(), step.contents.end(), content);
    };
    if (std::all_of(steps.begin(), steps.end(), has)) constant.insert(content);
  }
  return constant;
}

// What tells no step of either side from another. `by_order`: see AlignSteps.
std::set<std::string> Constant(const std::vector<StepInputs>& a, const std::vector<StepInputs>& b,
                               bool by_order) {
  std::set<std::string> constant = Constant(a);
  constant.merge(Constant(b));
  const bool tells = std::any_of(a.begin(), a.end(), [&](const StepInputs& step) {
    return std::any_of(step.contents.begin(), step.contents.end(),
                       [&](const std::string& content) { return !constant.contains(content); });
  });
  if (!tells && by_order) constant.clear();
  return constant;
}

bool InCommon(const StepInputs& a, const StepInputs& b, const std::set<std::string>& but) {
  return std::any_of(a.contents.begin(), a.contents.end(), [&](const std::string& content) {
    return !but.contains(content) &&
           std::binary_search(b.contents.begin(), b.contents.end(), content);
  });
}

std::string StepsOf(const std::vector<StepInputs>& inputs) {
  if (inputs.empty()) return "no step with an integer input";
  return fmt::format("{} steps from {} on", inputs.size(), inputs.front().step);
}

// Whether steps of one side before the first pair were given what steps of the other behind the
// last one were, in the same order.
enum class Round { kNone, kInOrder, kOtherOrder };
Round RoundOf(std::span<const StepInputs> before, std::span<const StepInputs> behind,
              const std::set<std::string>& constant) {
  Round round = Round::kNone;
  auto next = behind.begin();
  for (const StepInputs& step : before) {
    const auto fits = [&](const StepInputs& other) { return InCommon(step, other, constant); };
    if (std::none_of(behind.begin(), behind.end(), fits)) continue;
    next = std::find_if(next, behind.end(), fits);
    if (next == behind.end()) return Round::kOtherOrder;
    round = Round::kInOrder;
  }
  return round;
}

std::span<const StepInputs> Before(const std::vector<StepInputs>& steps, uint64_t first) {
  const auto end = std::find_if(steps.begin(), steps.end(),
                                [&](const StepInputs& step) { return step.step >= first; });
  return {steps.begin(), end};
}

std::span<const StepInputs> Behind(const std::vector<StepInputs>& steps, uint64_t last) {
  const auto begin = std::find_if(steps.begin(), steps.end(),
                                  [&](const StepInputs& step) { return step.step > last; });
  return {begin, steps.end()};
}

// Whether one run is, of the same round of batches, some steps ahead of the other, so that what one
// began with is what the other ends with.
bool GoesRound(const std::vector<StepInputs>& a, const std::vector<StepInputs>& b,
               const std::vector<std::pair<uint64_t, uint64_t>>& pairs,
               const std::set<std::string>& constant) {
  if (pairs.size() < 2) return false;  // two batches that were exchanged look the same
  const auto [first_a, first_b] = pairs.front();
  const auto [last_a, last_b] = pairs.back();
  const Round of_a = RoundOf(Before(a, first_a), Behind(b, last_b), constant);
  const Round of_b = RoundOf(Before(b, first_b), Behind(a, last_a), constant);
  // Where both are, the ends were exchanged.
  return (of_a == Round::kInOrder) != (of_b == Round::kInOrder) && of_a != Round::kOtherOrder &&
         of_b != Round::kOtherOrder;
}

// Neither the user nor an address says which steps belong together.
bool NobodySays(const RunSide& a, const RunSide& b, const PairOptions& options) {
  return !options.align_steps && options.steps.is_all() && options.step_shift == 0 && !a.step() &&
         !b.step();
}

std::set<uint64_t> StepNumbers(const RunSide& side, const PairOptions& options) {
  std::set<uint64_t> steps;
  for (const PassRef& pass : side.passes()) {
    if (!pass.extra && IsSelected(side, options, pass.rank)) steps.insert(pass.step);
  }
  return steps;
}

// Steps of one side that have no partner, and why.
class Alone {
 public:
  Alone(const std::vector<StepInputs>& here, const std::vector<StepInputs>& others, bool of_a,
        const std::set<std::string>& constant, bool goes_round, StepAlignment* alignment)
      : others_(others),
        of_a_(of_a),
        goes_round_(goes_round),
        constant_(constant),
        alignment_(*alignment) {
    for (const auto& [a, b] : alignment_.pairs) {
      here_paired_.insert(of_a ? a : b);
      others_paired_.insert(of_a ? b : a);
    }
    for (const StepInputs& step : here) {
      if (!here_paired_.contains(step.step)) Add(step);
    }
  }

  void Note() {
    const char here = of_a_ ? 'A' : 'B', there = of_a_ ? 'B' : 'A';
    if (!unmatched_.empty())
      alignment_.notes.push_back(fmt::format("no step of {} was given the inputs of step {} of {}",
                                             there, RangesText(unmatched_), here));
    if (!again_.empty())
      alignment_.notes.push_back(fmt::format(
          "step {} of {} was given the inputs of a step of {} that is compared with another one",
          RangesText(again_), here, there));
    if (!round_.empty())
      alignment_.notes.push_back(
          fmt::format("step {} of {} was given the inputs of a later step of {}, as where a run "
                      "goes round its data, and is not paired",
                      RangesText(round_), here, there));
    if (!behind_.empty() && !alignment_.parted)
      alignment_.notes.push_back(
          fmt::format("step {} of {} lies behind the last one that both were "
                      "given the inputs of, and is not compared",
                      RangesText(behind_), here));
    if (!moved_.empty())
      alignment_.notes.push_back(
          fmt::format("step {} of {} was given the inputs of a step of {} in another order, and is "
                      "not paired",
                      RangesText(moved_), here, there));
  }

 private:
  void Add(const StepInputs& step) {
    const bool is_before_last = step.step < *here_paired_.rbegin();
    bool is_again = false, is_round = false;
    for (const StepInputs& other : others_) {
      if (!InCommon(step, other, constant_)) continue;
      if (others_paired_.contains(other.step)) {
        is_again = true;
      } else if (goes_round_ && AreApart(step.step, other.step)) {
        is_round = true;
      } else {
        return AddMoved(step.step, other.step);
      }
    }
    if (is_before_last)
      (is_round ? round_ : is_again ? again_ : unmatched_).push_back(step.step);
    else if (!is_round && !is_again)
      behind_.push_back(step.step);
  }

  // One lies before the first pair, the other behind the last one.
  bool AreApart(uint64_t step, uint64_t other) const {
    return (step < *here_paired_.begin() && other > *others_paired_.rbegin()) ||
           (step > *here_paired_.rbegin() && other < *others_paired_.begin());
  }

  void AddMoved(uint64_t step, uint64_t partner) {
    moved_.push_back(step);
    alignment_.moved.push_back(
        {of_a_, step,
         fmt::format("in another order: step {} of {} was given the same inputs", partner,
                     of_a_ ? 'B' : 'A')});
  }

  const std::vector<StepInputs>& others_;
  const bool of_a_, goes_round_;
  const std::set<std::string>& constant_;
  StepAlignment& alignment_;
  std::set<uint64_t> here_paired_, others_paired_;
  std::vector<uint64_t> unmatched_, again_, round_, moved_;
  std::vector<uint64_t> behind_;  // a run may go on longer than the other one
};

}  // namespace

std::vector<StepInputs> InputsOf(const RunSide& side, const PairOptions& options) {
  std::map<uint64_t, Seen> steps;
  for (const PassRef& pass : side.passes()) {
    if (pass.extra || !IsSelected(side, options, pass.rank)) continue;
    const auto view = side.Open(pass);
    if (!view.ok()) continue;
    // Damage is told when the pass is compared.
    (void)(*view)->ForEachTensor([&](const io::Record& record) {
      if (IsTokens(record)) Add(**view, record, &steps[pass.step]);
      return true;
    });
  }
  std::vector<StepInputs> inputs;
  for (const auto& [step, seen] : steps) {
    if (inputs.size() < kMostSteps) inputs.push_back({step, ContentsOf(seen)});
  }
  return inputs;
}

std::vector<std::pair<uint64_t, uint64_t>> AlignSteps(const std::vector<StepInputs>& a,
                                                      const std::vector<StepInputs>& b,
                                                      bool by_order) {
  const std::set<std::string> constant = Constant(a, b, by_order);
  // Longest common subsequence: length[i][j] of what is left from i and j on.
  std::vector<std::vector<uint32_t>> length(a.size() + 1, std::vector<uint32_t>(b.size() + 1));
  std::vector<std::vector<bool>> same(a.size(), std::vector<bool>(b.size()));
  for (size_t i = a.size(); i-- > 0;) {
    for (size_t j = b.size(); j-- > 0;) {
      same[i][j] = InCommon(a[i], b[j], constant);
      length[i][j] =
          same[i][j] ? length[i + 1][j + 1] + 1 : std::max(length[i + 1][j], length[i][j + 1]);
    }
  }
  std::vector<std::pair<uint64_t, uint64_t>> pairs;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (same[i][j]) {
      pairs.emplace_back(a[i++].step, b[j++].step);
    } else if (length[i + 1][j] >= length[i][j + 1]) {
      ++i;
    } else {
      ++j;
    }
  }
  return pairs;
}

Result<StepAlignment> AlignByInputs(const RunSide& a, const RunSide& b,
                                    const PairOptions& options) {
  const std::vector<StepInputs> of_a = InputsOf(a, options), of_b = InputsOf(b, options);
  StepAlignment alignment;
  alignment.pairs = AlignSteps(of_a, of_b, options.align_steps);
  if (alignment.pairs.empty()) {
    return InvalidArgument(fmt::format(
        "--steps auto: no step of A was given the integer inputs of a step of B (A: {}; B: {}); "
        "capture the model's inputs (role: [input]), or say A=B, e.g. 0-4=10-14",
        StepsOf(of_a), StepsOf(of_b)));
  }
  const auto [last_a, last_b] = alignment.pairs.back();
  if (of_a.back().step > last_a) {
    const auto next = std::find_if(of_b.begin(), of_b.end(),
                                   [&](const StepInputs& step) { return step.step > last_b; });
    if (next != of_b.end()) alignment.parted = next->step;
  }
  const std::set<std::string> constant = Constant(of_a, of_b, options.align_steps);
  const bool goes_round = GoesRound(of_a, of_b, alignment.pairs, constant);
  Alone(of_a, of_b, true, constant, goes_round, &alignment).Note();
  Alone(of_b, of_a, false, constant, goes_round, &alignment).Note();
  return alignment;
}

bool CountOtherwise(const RunSide& a, const RunSide& b, const PairOptions& options) {
  if (!NobodySays(a, b, options)) return false;
  const std::set<uint64_t> of_a = StepNumbers(a, options), of_b = StepNumbers(b, options);
  return !of_a.empty() && !of_b.empty() &&
         std::none_of(of_a.begin(), of_a.end(), [&](uint64_t step) { return of_b.contains(step); });
}

std::string OtherStepsHint(const RunSide& a, const RunSide& b, const PairOptions& options) {
  if (!NobodySays(a, b, options)) return "";
  const Result<StepAlignment> found = AlignByInputs(a, b, options);
  if (!found.ok()) return "";
  const auto other = std::find_if(found->pairs.begin(), found->pairs.end(),
                                  [](const auto& pair) { return pair.first != pair.second; });
  if (other == found->pairs.end()) return "";
  return fmt::format(
      "step {} of B was given the integer inputs of step {} of A: --steps auto compares steps that "
      "were given the same",
      other->second, other->first);
}

}  // namespace tdump::compare
