#include "compare/stages.h"

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
