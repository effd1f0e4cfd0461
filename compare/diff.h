// Diff: two runs (or two ranks) compared, operator by operator. The library behind tdump-diff.
//
//   1. Pair the passes (pairing.h), in order of step and rank.
//   2. Of each pair of passes: pair the records, compare them (equal hashes are not read; the rest
//   is streamed once),
//      note the first difference of the pass (origin.h). Then the pass is forgotten but for its
//      numbers.
//   3. Choose the origin over ranks and steps, judge, report.
// Memory: one pass's metadata, a few tiles a thread, and what the report lists.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compare/origin.h"
#include "compare/pairing.h"
#include "compare/pass_diff.h"
#include "compare/verdict.h"

namespace tdump::compare {

// A pair of records as reports print it. Steps and ranks are the two sides'; equal but for shifted
// or single-rank diffs.
struct Row {
  uint64_t step_a = 0, step_b = 0;
  int32_t rank_a = 0, rank_b = 0;
  std::string name;  // NameOf
  Key key;
  OperatorKind kind = OperatorKind::kModule;
  std::string cls;
  std::string dtype_a, dtype_b;
  std::vector<uint64_t> shape_a, shape_b;  // in elements
  std::string kept_a, kept_b;              // "meta+hash"; with the reason when less than asked
  Comparison comparison;
  std::string bound;
  uint64_t order = 0;
  bool fails = false, allowed = false;
};

// A record, or a whole pass (empty name), without a partner.
struct Unpaired {
  char side = 'A';
  uint64_t step = 0;
  int32_t rank = 0;
  std::string name, key;
  bool extra = false;    // a pass the rank ran beyond the others
  uint64_t records = 0;  // of a whole pass
  bool allowed = false;
};

struct Origin {
  OriginKind kind = OriginKind::kOperator;
  bool certain = false;
  bool by_bits = false;  // chosen by the first difference in bits, which is within its bound
  uint64_t step_a = 0, step = 0;
  int32_t rank_a = 0, rank = 0;
  std::string name, path, op;  // name: the operator's plain name
  std::optional<Row> row;      // the first differing observation
  std::vector<Row> inputs;     // the call's recorded inputs
  std::optional<Row> last_agreeing;
  std::string parameter;                             // the operator's own parameter that differs
  std::vector<int32_t> ranks_alike, ranks_agreeing;  // other ranks, same step and operator
};

struct ParameterDifference {
  std::string name, path;
  int32_t rank = 0;
  uint64_t step = 0;  // first seen
};

struct ParameterReport {
  uint64_t compared = 0;  // distinct names
  uint64_t pairs = 0;     // over ranks and steps
  std::vector<ParameterDifference> differing;
  bool listed_all = true;  // `differing` was cut
  uint64_t differing_names = 0;
};

struct InputReport {
  uint64_t compared = 0;                         // pairs of root inputs
  uint64_t equal = 0;                            // bit by bit
  std::optional<uint64_t> first_differing_step;  // of B
  std::vector<std::string> differing;            // argument names
};

struct Counts {
  uint64_t paired = 0, judged = 0, failing = 0, allowed = 0;
  uint64_t bits_equal = 0, equal_by_hash = 0, read = 0, not_judged = 0, unproven = 0;
  uint64_t shape = 0, dtype = 0, special = 0, bits = 0, tolerance = 0;  // differing in
  uint64_t passes_paired = 0;
  uint64_t unpaired_a = 0, unpaired_b = 0,
           unpaired_allowed = 0;  // records; a whole pass counts its records
  uint64_t bytes_read = 0;        // of both sides
};

enum class Overall : uint8_t { kSame, kDiffers, kNotComparable };
std::string_view ToString(Overall overall);  // "same", "differs", "not comparable"

struct DiffOptions {
  PairOptions pairing;
  PassDiffOptions pass;
  NameFilter allow_unpaired;               // empty: none
  size_t top = 5;                          // failing rows and unpaired records listed; ~0: all
  std::function<void(const Row&)> on_row;  // every pair, in order of step, rank and time
  std::function<void(const Unpaired&)> on_unpaired;  // every one
  std::function<void(size_t done, size_t passes)> on_progress;
};

struct DiffReport {
  Overall overall = Overall::kNotComparable;
  std::string why_not;  // of kNotComparable
  Counts counts;
  std::vector<std::pair<uint64_t, uint64_t>> steps;  // paired: A, B
  std::vector<std::pair<int32_t, int32_t>> ranks;    // paired: A, B
  ParameterReport parameters;
  InputReport inputs;
  std::optional<Origin> origin;
  std::optional<Origin> first_bits;  // the first difference in bits, where it is not the origin
  std::vector<Row> failing;          // the first ones, in order of step, rank and time
  std::vector<Unpaired> unpaired;    // the first ones
  std::vector<std::string> notes;    // "layout differs ..." and the like, with how often
  std::vector<io::Damage> damage;
};

Result<DiffReport> Diff(const RunSide& a, const RunSide& b, const DiffOptions& options);

}  // namespace tdump::compare
