// Row: a pair of records as reports print it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compare/pairing.h"
#include "compare/pass_diff.h"
#include "compare/verdict.h"
#include "core/key.h"

namespace tdump::compare {

// Owns all it says: it outlives the passes it is about. Steps and ranks are the two sides'; equal
// but for shifted or single-rank diffs, and kAllRanks where ranks are put together and no single
// one decided.
struct Row {
  uint64_t step_a = 0, step_b = 0;
  int32_t rank_a = 0, rank_b = 0;
  int32_t holder = 0;  // in B: rank_b, but kAllRanks where ranks hold parts of the tensor
  std::string name;    // NameOf in B
  std::string name_a;  // where a map pairs other names
  Key key;
  OperatorKind kind = OperatorKind::kModule;
  std::string cls;
  std::string dtype_a, dtype_b;
  std::vector<uint64_t> shape_a, shape_b;  // in elements
  std::string kept_a, kept_b;              // "meta+hash"; with the reason when less than asked
  std::string layout_a, layout_b;          // how it was put together
  Comparison comparison;
  std::string bound;
  // Where the mean over a side's ranks would agree, which nobody asked for: how to. Else "".
  std::string remedy;
  // What the error of the inputs and the roundings explain; none: not judged by that. In dB: DbOf
  // (compare/bounds.h).
  std::optional<Explanation> explanation;
  // The worst ones, the worst first, where they were asked for (compare/worst_elements.h).
  std::vector<Worst> worst_elements;
  uint64_t order = 0;
  bool put_together = false;  // of all ranks of a side: positions are those of whole tensors
  bool fails = false, allowed = false;
  bool unresolved = false;  // a tensor could not be put together: the last note says why
};

// Reads both records again. Without names where they cannot be read any more.
Row MakeRow(const PassDiff& pass, const PassPair& pair, const Outcome& outcome);

}  // namespace tdump::compare
