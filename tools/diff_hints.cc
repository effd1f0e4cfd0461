#include "tools/diff_hints.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <vector>

#include "compare/recomputed.h"
#include "compare/text.h"
#include "compare/topology.h"
#include "core/key.h"
#include "core/text.h"

namespace tdump::tools {
namespace {

constexpr std::string_view kAxis = "dp";

// Whether both are single ranks of one generation of one run.
bool AreOfOneRun(const DiffSources& sources) {
  const LoadedRun *a = sources.a.run.get(), *b = sources.b.run.get();
  return a != nullptr && b != nullptr && a->ref.rank && b->ref.rank && a->ref.rank != b->ref.rank &&
         a->index.run == b->index.run && a->index.generation == b->index.generation;
}

// " --topology dp=2" where the run does not say where its ranks lie, "" where it does; none: its
// ranks are no copies.
std::optional<std::string> TopologyOption(const compare::RunSide& side) {
  std::vector<std::string> coordinates;
  for (int32_t rank = 0; rank < side.world(); ++rank)
    coordinates.push_back(side.CoordinatesOf(rank));
  const auto topology = compare::Topology::OfRanks(coordinates);
  if (!topology.ok() || topology->is_unknown() || topology->axes().empty())
    return fmt::format(" --topology {}={}", kAxis, side.world());
  return topology->Find(kAxis) ? std::optional<std::string>("") : std::nullopt;
}

// In the numbers of A.
struct SideSteps {
  std::set<uint64_t> all;
  std::set<uint64_t> whole;  // of every rank that has any
};

// `shift`: how far the side's numbers are ahead of A's.
SideSteps StepsOf(const compare::RunSide& side, const compare::PairOptions& pairing,
                  int64_t shift) {
  SideSteps steps;
  std::set<int32_t> ranks;
  std::map<uint64_t, std::set<int32_t>> whole;
  for (const compare::PassRef& pass : side.passes()) {
    const uint64_t step = pass.step - static_cast<uint64_t>(shift);
    if (!compare::IsSelected(side, pairing, pass.rank) || !pairing.steps.Contains(step)) continue;
    ranks.insert(pass.rank);
    steps.all.insert(step);
    if (!pass.part && !pass.extra) whole[step].insert(pass.rank);
  }
  for (const compare::PassRef& pass : side.passes()) {
    if (pass.part) whole[pass.step - static_cast<uint64_t>(shift)].erase(pass.rank);
  }
  for (const auto& [step, of_ranks] : whole) {
    if (of_ranks.size() == ranks.size()) steps.whole.insert(step);
  }
  return steps;
}

// Ranks of a whole run that its configuration selected; all of them where nobody says.
std::set<uint64_t> CapturedRanks(const io::RunIndex& index) {
  std::set<uint64_t> all, selected;
  for (const io::RankState& state : index.ranks) {
    all.insert(static_cast<uint64_t>(state.rank));
    // Of one that never started nobody knows.
    if (state.selected || state.processes.empty())
      selected.insert(static_cast<uint64_t>(state.rank));
  }
  const bool is_said = std::any_of(index.ranks.begin(), index.ranks.end(),
                                   [](const io::RankState& state) { return state.selected; });
  return is_said ? selected : all;
}

std::string RanksText(const std::set<uint64_t>& ranks) {
  return compare::NumbersText("rank", {ranks.begin(), ranks.end()});
}

bool IsWholeRun(const DiffSource& source) {
  return source.run != nullptr && !source.picked && !source.run->ref.rank;
}

}  // namespace

std::string ReplicaHint(const DiffSources& sources, const compare::DiffReport& report) {
  if (!report.inputs.first_differing_step || !AreOfOneRun(sources)) return "";
  const auto topology = TopologyOption(*sources.a.side);
  if (!topology) return "";
  const LoadedRun& run = *sources.a.run;
  const std::string generation =
      run.ref.generation ? fmt::format("@{}", *run.ref.generation) : std::string();
  return fmt::format(
      "A and B are ranks of one run; where each has its own part of the batch, what they hold as "
      "copies (weights, at every step) is compared by: tdump-diff {} --across {}{}",
      ShellWord(Printable(run.index.run + generation)), kAxis, *topology);
}

std::string StepsHint(const DiffSources& sources, const compare::PairOptions& pairing,
                      const compare::DiffReport& report) {
  const bool of_runs = sources.a.run != nullptr && sources.b.run != nullptr && !sources.a.picked &&
                       !sources.b.picked;
  if (!of_runs || report.overall != compare::Overall::kDiffers || report.steps_aligned) return "";
  const SideSteps a = StepsOf(*sources.a.side, pairing, 0);
  const SideSteps b = StepsOf(*sources.b.side, pairing, pairing.step_shift);
  std::vector<uint64_t> whole;
  std::set_intersection(a.whole.begin(), a.whole.end(), b.whole.begin(), b.whole.end(),
                        std::back_inserter(whole));
  std::set<uint64_t> all = a.all;
  all.insert(b.all.begin(), b.all.end());
  if (whole.empty() || whole.size() == all.size()) return "";
  std::string steps = RangesText(whole);
  if (pairing.step_shift != 0) {
    for (uint64_t& step : whole) step += static_cast<uint64_t>(pairing.step_shift);
    steps += "=" + RangesText(whole);
  }
  return fmt::format("whole on both sides: step{} {}; to compare no others: --steps {}",
                     whole.size() == 1 ? "" : "s", steps, steps);
}

std::string RanksHint(const DiffSources& sources, const compare::PairOptions& pairing,
                      const compare::DiffReport& report) {
  const bool is_across = !report.across.empty();
  const DiffSource &a = sources.a, &b = is_across ? sources.a : sources.b;
  const bool is_missed = report.job || report.counts.unpaired_a + report.counts.unpaired_b > 0;
  if (!IsWholeRun(a) || !IsWholeRun(b) || report.overall == compare::Overall::kSame || !is_missed)
    return "";
  const std::set<uint64_t> of_a = CapturedRanks(a.run->index), of_b = CapturedRanks(b.run->index);
  const auto world_a = static_cast<uint64_t>(a.run->index.ranks.size());
  const auto world_b = static_cast<uint64_t>(b.run->index.ranks.size());
  if (of_a == of_b && world_a == world_b && !is_across) return "";
  std::string text;
  if (of_a.size() < world_a)
    text = fmt::format("A was captured on {} of {} only", RanksText(of_a), world_a);
  if (of_b.size() < world_b && !is_across)
    text += fmt::format("{}{} on {} of {} only", text.empty() ? "" : ", ",
                        text.empty() ? "B was captured" : "B", RanksText(of_b), world_b);
  if (text.empty() || world_a != world_b) return text;
  std::set<uint64_t> both;
  std::set_intersection(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(),
                        std::inserter(both, both.end()));
  // What was asked for and is there.
  bool lacks = false;
  std::set<uint64_t> asked;
  for (uint64_t rank = 0; rank < world_a; ++rank) {
    if (!pairing.ranks.Contains(rank, world_a)) continue;
    if (both.contains(rank))
      asked.insert(rank);
    else
      lacks = true;
  }
  if (!lacks) return "";
  if (asked.empty()) return text;
  return fmt::format("{}; to compare no others: --ranks {}", text,
                     RangesText({asked.begin(), asked.end()}));
}

std::string RecomputeHint(const compare::DiffReport& report) {
  // Those are what was looked for.
  if (std::ranges::any_of(report.notes, compare::SaysRecomputedDiffers)) return "";
  std::set<char> sides;
  for (const compare::Unpaired& alone : report.unpaired) {
    const auto key = ParseKey(alone.key);
    if (!alone.allowed && key.ok() && key->recompute) sides.insert(alone.side);
  }
  if (sides.size() != 1) return "";
  return fmt::format(
      "{} alone has forwards that were run again, as activation checkpointing does (~r); to "
      "compare without these: --allow-unpaired '@.*~.*r$'",
      *sides.begin());
}

}  // namespace tdump::tools
