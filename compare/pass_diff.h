// PassDiff: every pair of records of one pass pair, compared. The unit of work of Diff; its memory
// is the metadata of the two passes (and of those before, see `before`) plus a few tiles a thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compare/explain.h"
#include "compare/noise.h"
#include "compare/packed_explanation.h"
#include "compare/pairing.h"
#include "compare/rare.h"
#include "compare/record_patterns.h"
#include "compare/roles.h"
#include "compare/rules.h"
#include "compare/run_side.h"
#include "compare/spill_file.h"
#include "compare/step_view.h"
#include "compare/thread_budget.h"
#include "compare/verdict.h"

namespace tdump::compare {

class SharedPairs;
struct PassDiff;
struct StepBefore;

// The same ranks one step earlier, compared; null: not known.
using AskBefore = std::function<std::shared_ptr<const StepBefore>()>;

struct PassDiffOptions {
  bool require_bits = false;
  bool verify = false;                      // read payloads of equal hashes too
  std::optional<Precision> compute;         // what B's operators computed in; none: their dtypes
  std::shared_ptr<const BoundRules> rules;  // may be null
  std::shared_ptr<const NoiseModel> noise;  // of repeats of A; may be null
  NameFilter select;                        // plain names to compare; empty: all
  RecordPatterns allow_failed;              // records whose failure is listed but does not count
  NameFilter align;  // plain names compared in the part that both sides have; empty: none
  unsigned threads = 1;
  ThreadBudget* budget = nullptr;  // of which more threads are taken; none: no more than one runs
  SharedPairs* shared = nullptr;   // processes that share the pairs; none: this one compares all
  SpillOptions spill;              // where what is measured of many pairs lies
  AskBefore before;                // see compare/optimizer_updates.h; empty: not known
  bool is_first_step = false;      // nothing was before: what an optimizer keeps was 0
  // Pairs compared so far, of all that this process compares. Never two calls at once, on any
  // thread.
  std::function<void(size_t done, size_t all)> on_pairs;
};

// What rounding, and noise, explain of a pair.
struct Rounding {
  Reduction reduction;  // of its call
  LocalBound local;
};
// `rounding` may be null.
const Rounding& RoundingOf(const std::shared_ptr<const Rounding>& rounding);

// A pair of records, compared. What reports print beyond this is read again from the two passes. A
// step of many ranks has millions: what few have is Rare or shared, numbers are Packed and may lie
// in the file of their PassDiff.
struct Outcome {
  RecordIds ids;
  // Begin of the call in B; of a tap, which computes nothing: of the call it stands in.
  uint64_t call = 0;
  uint64_t order = 0;  // B's sequence number at which it was seen (compare/origin.h, 1)
  uint64_t path = 0;   // equal for observations of one module
  uint64_t key_hash = 0;
  std::shared_ptr<const Rounding> rounding;  // none: nothing asked for a bound
  const BoundRule* rule = nullptr;           // that decides
  // What rounding and the error of what went in explain; none: not judged by that.
  PackedExplanation explanation;
  Rare<std::string> unresolved;  // why a tensor could not be put together, which fails
  // The payload could not be read: nothing is judged, see PassDiff::damage.
  Rare<std::string> error;
  [[no_unique_address]] Comparison comparison;  // what follows begins in its padding
  Role role = Role::kOutput;
  bool root_input = false;
  bool of_optimizer = false;  // what an optimizer keeps of a parameter
  // Shape, dtype, special values, tolerance, or bits where required; or not proven within.
  bool fails = false;
  bool bits_differ = false;  // includes `fails`
  bool allowed = false;      // the bits differ, and the user allows it
  // Of views that put ranks together: which rank's capture decided, as far as one did.
  int32_t rank_a = kAllRanks, rank_b = kAllRanks;

  const Reduction& reduction() const { return RoundingOf(rounding).reduction; }
  const LocalBound& local() const { return RoundingOf(rounding).local; }
  bool is_weight() const { return IsWeight(role); }
  bool is_output() const { return IsOutput(role); }
  // Both tensors are there, and could be read.
  bool is_compared() const { return error->empty() && unresolved->empty(); }
};

// What a note begins with on shards of which hashes alone are known; the ranks and the key follow.
inline constexpr std::string_view kShardsDiffer = "by hash, shards of several ranks differ: ";

struct CallSpan {
  uint64_t begin = 0, end = 0;
  uint64_t parent = 0;  // begin of the enclosing call, 0 for none
  OperatorKind kind = OperatorKind::kModule;
  std::string root, path, op;
};

struct PassDiff {
  std::unique_ptr<StepView> a, b;
  std::unique_ptr<SpillFile> spill;  // of the outcomes
  std::vector<Outcome> outcomes;
  std::vector<uint64_t> only_a, only_b;  // record ids
  std::vector<LostCopy> lost_a, lost_b;
  RankLists rank_lists;                          // of these
  KilledParts killed_a, killed_b;                // none where ranks are compared one by one
  std::unordered_map<uint64_t, CallSpan> calls;  // of B, by begin
  uint64_t structure = 0;                        // equal for pass pairs with the same keys
  bool is_later_stage = false;                   // see OpenedPair
  bool weights_of_other_steps = false;           // compare/first_weights.h
  std::vector<io::Damage> damage;
  std::vector<std::string> notes;
};

// Where pairs are shared, on other processes than the first: nothing but its own pairs, which it
// has sent.
PassDiff DiffViews(OpenedPair opened, const PassDiffOptions& options);
// Which records are compared.
WantRecord Wanted(const PassDiffOptions& options);
// One pass against one pass. Error: one cannot be opened.
Result<PassDiff> DiffPass(const RunSide& a, const RunSide& b, const PassPair& pair,
                          const PassDiffOptions& options);

// The plain name of a record; of a parameter or buffer, with its own name:
// "encoder.layer.0.dense.weight".
std::string NameOf(const io::Record& record);

}  // namespace tdump::compare
