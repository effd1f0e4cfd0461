// LeftOutSums: sums over ranks that were only inferred (compare/partial_sums.h), and that the job
// did not make: what comes next, a residual connection behind an operator, is off on a rank by what
// the others hold of the sum, element by element. So an all-reduce is found to be left out that no
// layer has, and of which what takes it was not recorded.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

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

// Sums that wait for what may show that they were left out: the first that comes behind, of their
// shape, of which ranks hold what should be copies and differs, or is taken for a sum that does not
// agree. Whether they do is asked once for each pair and side, and only where such a sum waits:
// most jobs have many sums and no such pair.
class SumsWaiting {
 public:
  // `side`: of the sum. `index`: the caller's, for Take.
  void Add(const LoadedPair& sum, char side, size_t index);
  // Those that waited for it. Reads a sample of copies without hashes.
  std::vector<size_t> Take(const LoadedPair& next);

 private:
  using Place = std::tuple<char, bool, Shape>;  // side, of a gradient, shape
  static Place PlaceOf(const LoadedPair& pair, char side);

  std::map<Place, std::vector<size_t>> waiting_;
};
// Whether `next` shows that the sum was left out. Reads a sample of both.
bool ShowsSumLeftOut(const LoadedPair& sum, const LoadedPair& next, char side);

}  // namespace tdump::compare
