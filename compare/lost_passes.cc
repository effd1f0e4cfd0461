#include "compare/lost_passes.h"

#include <algorithm>

#include "compare/skipped_ranks.h"

namespace tdump::compare {
namespace {

// Whether they lie apart on axes of replicas alone, as somebody says.
bool AreReplicas(const Topology& topology, int32_t x, int32_t y) {
  if (topology.is_unknown() || !topology.HasPlace(x) || !topology.HasPlace(y)) return false;
  for (size_t i = 0; i < topology.axes().size(); ++i) {
    if (!IsOfReplicas(topology.axes()[i].name) && topology.PlaceOn(i, x) != topology.PlaceOn(i, y))
      return false;
  }
  return true;
}

}  // namespace

std::vector<PassRef> PassesOfLost(const JobSide& side, const PassRef& step, const JobSide& other) {
  std::vector<PassRef> passes;
  const std::vector<PassRef>& members = side.PassesOf(step);
  if (side.lost().empty() || step.process != 0 || step.extra || step.nth != 0 || members.empty())
    return passes;
  const bool lie_alike = LieAlike(side, other);
  for (const int32_t rank : side.lost()) {
    auto beside = std::ranges::find_if(members, [&](const PassRef& pass) {
      return AreReplicas(side.topology(), rank, pass.rank);
    });
    const bool is_of_other = lie_alike && std::ranges::binary_search(other.Ranks(), rank);
    if (beside == members.end() && is_of_other) beside = members.begin();
    if (beside == members.end()) continue;
    passes.push_back(*beside);
    passes.back().rank = rank;
  }
  return passes;
}

}  // namespace tdump::compare
