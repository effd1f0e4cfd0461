// Sparse COO tensors of which a side is not coalesced: entries of one place stand apart there, and
// in any order, so that "indices" and "values", by which such a tensor is recorded, differ although
// the tensors do not. Where both sides kept them they are compared as they are once coalesced:
// entries sorted by place, those of one place added up, exactly but for what adding them up in
// their dtype may round, (entries - 1) * unit roundoff * sum |x| (Higham, Accuracy and
// Stability, 4.2).
#pragma once

#include <string_view>

#include "compare/pass_diff.h"

namespace tdump::compare {

// What the note of such a pair begins with.
inline constexpr std::string_view kSparseNote = "sparse, ";

// Of components that fail: says so, and makes those agree that are equal once coalesced, unless
// bits are asked for. Reads at most 16 MiB of a component. After pairs were judged.
void JudgeSparse(const PassDiffOptions& options, PassDiff* pass);

}  // namespace tdump::compare
