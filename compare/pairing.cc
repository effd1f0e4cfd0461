#include "compare/pairing.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "compare/leftovers.h"
#include "compare/metrics.h"
#include "compare/stored_alike.h"
#include "core/key.h"
#include "core/text.h"

namespace tdump::compare {
namespace {

// What makes two passes partners. `rank` is 0 on both sides when single ranks are compared, and the
// step where an address names one.
using PassKey = std::tuple<uint64_t, int32_t, uint32_t, bool, uint32_t>;

bool HasRank(const RunSide& side, int32_t rank) { return rank >= 0 && rank < side.world(); }

// Steps of one side to the steps of A as which they are compared.
using StepsOfA = std::map<uint64_t, uint64_t>;

StepsOfA PairedSteps(const PairOptions& options, bool of_b) {
  StepsOfA steps;
  for (const auto& [a, b] : options.step_pairs) steps.emplace(of_b ? b : a, a);
  return steps;
}

// None: the step is not selected.
std::optional<uint64_t> StepOfA(const PairOptions& options, const StepsOfA& paired, bool of_b,
                                uint64_t step) {
  if (!options.step_pairs.empty()) {
    const auto found = paired.find(step);
    return found == paired.end() ? std::nullopt : std::optional(found->second);
  }
  const __int128 shifted = __int128{step} - (of_b ? options.step_shift : 0);
  if (shifted < 0 || shifted > ~uint64_t{0}) return std::nullopt;
  const auto step_of_a = static_cast<uint64_t>(shifted);
  return options.steps.Contains(step_of_a) ? std::optional(step_of_a) : std::nullopt;
}

// Which numbers are left out of account.
struct Single {
  bool rank = false, step = false;
};

std::map<PassKey, PassRef> SelectPasses(const RunSide& side, const PairOptions& options, bool of_b,
                                        Single single) {
  const StepsOfA paired = PairedSteps(options, of_b);
  std::map<PassKey, PassRef> passes;
  for (const PassRef& pass : side.passes()) {
    if (!IsSelected(side, options, pass.rank)) continue;
    const std::optional<uint64_t> step =
        single.step ? 0 : StepOfA(options, paired, of_b, pass.step);
    if (!step) continue;
    passes.emplace(PassKey{*step, single.rank ? 0 : pass.rank, pass.process, pass.extra, pass.nth},
                   pass);
  }
  return passes;
}

Status CheckRanks(const RunSide& a, const RunSide& b, const PairOptions& options) {
  for (const RunSide* side : {&a, &b}) {
    if (side->rank() && !HasRank(*side, *side->rank())) {
      return InvalidArgument(fmt::format("{}: there is no rank {}; the run has ranks 0-{}",
                                         side->label(), *side->rank(), side->world() - 1));
    }
  }
  if (a.rank().has_value() != b.rank().has_value() && a.world() != 1 && b.world() != 1) {
    return InvalidArgument(
        fmt::format("'{}' is one rank and '{}' a whole run: name a rank on both sides, e.g. "
                    "RUN/rank0 RUN/rank2",
                    a.rank() ? a.label() : b.label(), a.rank() ? b.label() : a.label()));
  }
  std::string misfit;
  for (const RunSide* side : {&a, &b}) {
    if (side->rank() || options.ranks.FitsIn(static_cast<uint64_t>(side->world()), &misfit))
      continue;
    return InvalidArgument(
        fmt::format("--ranks {}: {} has ranks 0-{}", misfit, side->label(), side->world() - 1));
  }
  return {};
}

std::vector<uint64_t> StepsOf(const std::vector<PassRef>& passes) {
  std::vector<uint64_t> steps;
  for (const PassRef& pass : passes) steps.push_back(pass.step);
  return steps;
}

// "steps 0-9 on ranks 0-3" of all that a side has.
std::string ContentOf(const RunSide& side) {
  std::vector<uint64_t> steps, ranks;
  for (const PassRef& pass : side.passes()) {
    if (pass.rank == kAllRanks) {
      steps.push_back(pass.step);
      continue;
    }
    if (side.rank() && pass.rank != *side.rank()) continue;
    steps.push_back(pass.step);
    ranks.push_back(static_cast<uint64_t>(pass.rank));
  }
  if (steps.empty()) return "has no pass at all";
  if (ranks.empty()) return fmt::format("has steps {}", RangesText(steps));
  return fmt::format("has steps {} on ranks {}", RangesText(steps), RangesText(ranks));
}

// What an address names meets one step of one rank.
Status CheckSteps(const RunSide& a, const RunSide& b, const PairOptions& options) {
  if (a.step().has_value() == b.step().has_value()) return {};
  const RunSide &address = a.step() ? a : b, &other = a.step() ? b : a;
  std::set<std::pair<uint64_t, int32_t>> places;
  for (const PassRef& pass : other.passes()) {
    if (IsSelected(other, options, pass.rank)) places.emplace(pass.step, pass.rank);
  }
  if (places.size() < 2) return {};
  const std::pair<uint64_t, int32_t> same(*address.step(), address.rank().value_or(kAllRanks));
  const auto [step, rank] = places.contains(same) ? same : *places.begin();
  return InvalidArgument(fmt::format(
      "'{}' is of one step of one rank and '{}' {}: name a step and a rank on both "
      "sides, e.g. {}:{}/{}, or two whole runs, with --steps and --select",
      address.label(), other.label(), ContentOf(other), other.label(), step, std::max(rank, 0)));
}

// Record ids under one key, in file order, not yet given away.
struct Waiting {
  std::vector<uint64_t> ids;
  size_t next = 0;
};

// Equal for all that may be partners under one name.
uint64_t NameHash(Key key) {
  key.arg.clear();
  key.call = 0;
  key.micro = key.chunk = key.lane = 0;
  return std::hash<std::string>{}(ToText(key));
}

struct Left {
  std::vector<uint64_t> ids;
  std::vector<Leftover> leftovers;
  std::unordered_set<uint64_t> names;
};

// `names`: those that count; null: all, and no more than names is kept.
Left LeftOf(const StepView& view, const std::vector<uint64_t>& ids,
            const std::unordered_set<uint64_t>* names) {
  Left left;
  for (const uint64_t id : ids) {
    const auto record = view.Get(id);
    if (!record.ok()) continue;
    const uint64_t name = NameHash(record->key);
    if (names != nullptr && !names->contains(name)) continue;
    left.names.insert(name);
    if (names == nullptr) continue;
    left.leftovers.push_back({record->key, record->cls, ElementShape(*record), left.ids.size()});
    left.ids.push_back(id);
  }
  return left;
}

}  // namespace

bool IsSelected(const RunSide& side, const PairOptions& options, int32_t rank) {
  if (rank == kAllRanks) return true;
  if (side.rank()) return rank == *side.rank();
  return options.ranks.Contains(static_cast<uint64_t>(rank), static_cast<uint64_t>(side.world()));
}

Result<PassPairing> PairPasses(const RunSide& a, const RunSide& b, const PairOptions& options) {
  TDUMP_RETURN_IF_ERROR(CheckSteps(a, b, options));
  TDUMP_RETURN_IF_ERROR(CheckRanks(a, b, options));
  const Single single{.rank = a.rank() || b.rank(), .step = a.step() || b.step()};
  std::map<PassKey, PassRef> waiting = SelectPasses(b, options, true, single);
  const std::map<PassKey, PassRef> left = SelectPasses(a, options, false, single);

  PassPairing pairing;
  for (const auto& [pass_key, pass] : left) {
    const auto partner = waiting.find(pass_key);
    if (partner == waiting.end()) {
      pairing.only_a.push_back(pass);
      continue;
    }
    pairing.pairs.push_back({pass, partner->second});
    waiting.erase(partner);
  }
  for (const auto& [pass_key, pass] : waiting) pairing.only_b.push_back(pass);
  return pairing;
}

std::string WhyNoPass(const RunSide& a, const RunSide& b, const PassPairing& pairing) {
  if (pairing.only_a.empty() || pairing.only_b.empty()) {
    return fmt::format("nothing was selected on {}: A {}, B {}",
                       !pairing.only_a.empty()   ? "B"
                       : !pairing.only_b.empty() ? "A"
                                                 : "either side",
                       ContentOf(a), ContentOf(b));
  }
  const std::vector<uint64_t> left = StepsOf(pairing.only_a), right = StepsOf(pairing.only_b);
  const auto [first_a, last_a] = std::minmax_element(left.begin(), left.end());
  const auto [first_b, last_b] = std::minmax_element(right.begin(), right.end());
  const uint64_t span = std::min(*last_a - *first_a, *last_b - *first_b);
  return fmt::format(
      "no step in common: A {}, B {}; if they are the same work, try --steps {}-{}={}-{}",
      ContentOf(a), ContentOf(b), *first_a, *first_a + span, *first_b, *first_b + span);
}

Result<PassViews> OpenViews(const RunSide& a, const RunSide& b, const PassPair& pair) {
  PassViews views;
  TDUMP_ASSIGN_OR_RETURN(views.a, a.Open(pair.a));
  TDUMP_ASSIGN_OR_RETURN(views.b, b.Open(pair.b));
  StepView* const of_a[] = {views.a.get()};
  StepView* const of_b[] = {views.b.get()};
  ShowStoredAlike(of_a, of_b);
  return views;
}

bool AreParametersGiven(const PassPair& pair) { return pair.a.step == 0 && pair.b.step == 0; }

Result<OpenedPair> OpenPasses(const RunSide& a, const RunSide& b, const PassPair& pair,
                              const WantRecord& wanted) {
  TDUMP_ASSIGN_OR_RETURN(PassViews views, OpenViews(a, b, pair));
  OpenedPair opened;
  opened.parameters_given = AreParametersGiven(pair);
  opened.a = std::move(views.a);
  opened.b = std::move(views.b);
  opened.pairing = PairRecords(*opened.a, *opened.b, wanted);
  PairSameNames(*opened.a, *opened.b, &opened.pairing);
  return opened;
}

void PairSameNames(const StepView& a, const StepView& b, RecordPairing* pairing) {
  if (pairing->only_a.empty() || pairing->only_b.empty()) return;
  const Left names = LeftOf(b, pairing->only_b, nullptr);
  const Left left = LeftOf(a, pairing->only_a, &names.names);
  const Left right = LeftOf(b, pairing->only_b, &left.names);
  std::unordered_set<uint64_t> paired_a, paired_b;
  for (const LeftoverPair& pair : PairLeftovers(left.leftovers, right.leftovers, kSameNames)) {
    const Key &key_a = left.leftovers[pair.a].key, &key_b = right.leftovers[pair.b].key;
    pairing->made.push_back({pairing->pairs.size(), 1, PairedText(pair.by, key_a, key_b)});
    pairing->pairs.push_back({left.ids[pair.a], right.ids[pair.b]});
    pairing->key_hashes.push_back(std::hash<std::string>{}(ToText(key_b)));
    paired_a.insert(left.ids[pair.a]);
    paired_b.insert(right.ids[pair.b]);
  }
  std::erase_if(pairing->only_a, [&](uint64_t id) { return paired_a.contains(id); });
  std::erase_if(pairing->only_b, [&](uint64_t id) { return paired_b.contains(id); });
}

RecordPairing PairRecords(const StepView& a, const StepView& b, const WantRecord& wanted) {
  RecordPairing pairing;
  std::unordered_map<std::string, Waiting> waiting;
  const auto note = [&](Status status) {
    if (!status.ok()) pairing.errors.push_back(std::move(status));
  };
  note(b.ForEachTensor([&](const io::Record& record) {
    if (wanted(record)) waiting[ToText(record.key)].ids.push_back(record.id);
    return true;
  }));
  note(a.ForEachTensor([&](const io::Record& record) {
    if (!wanted(record)) return true;
    const auto found = waiting.find(ToText(record.key));
    if (found == waiting.end() || found->second.next == found->second.ids.size()) {
      pairing.only_a.push_back(record.id);
    } else {
      pairing.pairs.push_back({record.id, found->second.ids[found->second.next++]});
      pairing.key_hashes.push_back(std::hash<std::string>{}(found->first));
    }
    return true;
  }));
  for (const auto& [key, rest] : waiting) {
    pairing.only_b.insert(pairing.only_b.end(),
                          rest.ids.begin() + static_cast<ptrdiff_t>(rest.next), rest.ids.end());
  }
  std::sort(pairing.only_b.begin(), pairing.only_b.end());
  return pairing;
}

}  // namespace tdump::compare
