// LeftOutSums: sums over ranks that were only inferred (compare/partial_sums.h), and that the job
// did not make: what comes next, a residual connection behind an operator, is off on a rank by what
// the others hold of the sum, element by element. So an all-reduce is found to be left out that no
// layer has, and of which what takes it was not recorded.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "compare/load_shards.h"
#include "compare/resolve_layout.h"
#include "core/key.h"

namespace tdump::compare {

// Of one name, on both sides.
struct LoadedPair {
  LoadedShards of_a, of_b;
  ResolvedLayouts layouts;
};

// Whether one side is such a sum, and the other is not: 'A' or 'B'; none: neither, or both.
std::optional<char> SideOfSum(const LoadedPair& pair);

// Whether `next` may show that the sum was left out: of its shape, and ranks hold what should be
// copies and differs, or is taken for a sum that does not agree. `side`: of the sum.
bool MayShowSum(const LoadedPair& sum, const LoadedPair& next, char side);
// Whether it does. Reads a sample of both.
bool ShowsSumLeftOut(const LoadedPair& sum, const LoadedPair& next, char side);

}  // namespace tdump::compare
