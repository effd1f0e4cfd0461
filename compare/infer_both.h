// InferBoth: layouts of two sides of which nobody said anything.
//
//   1. Ranks that lie alike: each shard against that of the same place (PlaceByPlace).
//   2. Where that does not agree, or they lie otherwise: every shape that both can have, and every
//      layout of either that gives it. The first pair holds under which the data agree. Copies on
//      both sides are taken for such where those of one side are equal among themselves; an axis
//      that both have is summed over on one side alone, for a sum hides which rank holds what.
//   3. Where none agrees: what came of 1, else the pair of which the fewest copies differ.
#pragma once

#include "compare/resolve_layout.h"

namespace tdump::compare {

// As ResolveLayouts.
Result<ResolvedLayouts> InferBoth(const ShardSet& a, const ShardSet& b, bool may_reorder,
                                  LayoutMemory* memory_a, LayoutMemory* memory_b);

}  // namespace tdump::compare
