#include "compare/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compare/topology.h"

namespace tdump::compare {

std::optional<uint32_t> StageOf(const RunSide& side, int32_t rank) {
  if (rank == kAllRanks) return std::nullopt;
  const auto at = ParseCoordinates(side.CoordinatesOf(rank));
  if (!at.ok()) return std::nullopt;
  const auto stage = at->find("pp");
  return stage == at->end() ? std::nullopt : std::optional(stage->second);
}

std::optional<uint32_t> StageOf(const RunSide& a, const RunSide& b, const PassPair& pair) {
  const auto stage = StageOf(b, pair.b.rank);
  return stage ? stage : StageOf(a, pair.a.rank);
}

std::string WhyNotSameStage(const RunSide& a, const RunSide& b, bool has_map) {
  const auto of_a = StageOf(a, a.rank().value_or(kAllRanks));
  const auto of_b = StageOf(b, b.rank().value_or(kAllRanks));
  if (!of_a || !of_b || *of_a == *of_b || has_map) return "";
  return fmt::format(
      "{} is stage {} of a pipeline (pp) and {} stage {}: their layers are not the same; name "
      "ranks of one stage, or compare the whole runs",
      a.label(), *of_a, b.label(), *of_b);
}

bool AreUnknownRanks(const RunSide& a, const RunSide& b) {
  if (a.is_of_named_records() || b.is_of_named_records()) return false;  // the user says what
  return a.rank() && b.rank() && *a.rank() != *b.rank() &&
         (a.CoordinatesOf(*a.rank()).empty() || b.CoordinatesOf(*b.rank()).empty());
}

Stages::Stages(const RunSide& a, const RunSide& b)
    : a_(a), b_(b), unknown_(a.world() > 1 || b.world() > 1) {
  for (const RunSide* side : {&a, &b}) {
    std::set<int32_t> ranks;  // a damaged manifest may tell of any number of them
    for (const PassRef& pass : side->passes()) ranks.insert(pass.captured_rank());
    for (const int32_t rank : ranks) {
      unknown_ = unknown_ && side->CoordinatesOf(rank).empty();
      count_ = std::max(count_, StageOf(*side, rank).value_or(0) + 1);
    }
  }
}

}  // namespace tdump::compare
