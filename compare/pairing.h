// Pairing: which pass of B belongs to which pass of A, and within them which record to which
// record. By equal agreed step, equal rank (or the steps and ranks the user named), equal key; what
// is left then, under one name, by argument and order of calls (compare/leftovers.h), which is
// said. Whole jobs and other names are paired by compare/job_pairs.h. What has no partner is
// listed, never dropped.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compare/run_side.h"
#include "compare/step_view.h"
#include "core/key.h"
#include "core/spec.h"
#include "core/status.h"

namespace tdump::compare {

using NameFilter = std::function<bool(const std::string& name)>;  // empty: see where it is used

struct PairOptions {
  Spec ranks = Spec::All();
  Spec steps = Spec::All();  // of A, and of B unless shifted
  int64_t step_shift = 0;    // step of B = step of A + shift
  // Steps that were given the same integer inputs are partners, whatever their numbers; found by
  // Diff (compare/step_align.h).
  bool align_steps = false;
  std::vector<std::pair<uint64_t, uint64_t>> step_pairs;  // A, B; not empty: these and no others
};

// Whether a rank takes part on this side.
bool IsSelected(const RunSide& side, const PairOptions& options, int32_t rank);

struct PassPair {
  PassRef a, b;
};
// Whether nothing was trained before it.
inline bool IsFirstStep(const PassPair& pair) {
  return pair.a.step == 0 && pair.b.step == 0 && !pair.a.extra && !pair.b.extra;
}

struct PassPairing {
  std::vector<PassPair> pairs;          // by (step, rank, process, nth)
  std::vector<PassRef> only_a, only_b;  // selected, but without a partner
};

// Error (kInvalidArgument): a rank that a side does not have; one rank, or what an address names,
// against a whole run.
Result<PassPairing> PairPasses(const RunSide& a, const RunSide& b, const PairOptions& options);

// Of a pairing without a pair: what each side has, and what to try.
std::string WhyNoPass(const RunSide& a, const RunSide& b, const PassPairing& pairing);

struct RecordIds {
  uint64_t a = 0, b = 0;
};

// How pairs were made that equal keys do not make.
struct PairsMade {
  size_t first = 0, count = 0;  // of RecordPairing::pairs
  std::string how;              // PairedText in compare/leftovers.h
};

struct RecordPairing {
  std::vector<RecordIds> pairs;      // in A's file order, those of equal keys first
  std::vector<uint64_t> key_hashes;  // of the pairs; of B's keys
  std::vector<PairsMade> made;       // of few
  std::vector<uint64_t> only_a, only_b;
  std::vector<Status> errors;  // records that could not be read; the others are paired all the same
};

// A tensor of which a rank holds no copy, although it should (compare/lost_copies.h).
struct LostCopy {
  // kSkipped: the rank did not run what makes it (compare/skipped_ranks.h).
  enum class How : uint8_t { kGone, kUnfinished, kNoPass, kSkipped };
  uint64_t tensor = 0;   // its id in the view of that side
  uint64_t partner = 0;  // and in the other one's
  int32_t rank = 0;
  How how = How::kGone;
  uint32_t ran = 0;  // index in the rank lists beside it, of kSkipped and where IsHeldByOthers
};
// Lists of ranks to which lost copies refer: many have one.
using RankLists = std::vector<std::vector<int32_t>>;

// Of a step: ranks that were killed in it, and tensors of which their part is missing
// (compare/killed_ranks.h).
struct KilledRank {
  int32_t rank = 0;
  std::string how;                      // "killed or left by _exit"
  std::optional<Key> last;              // what it recorded last in the step; none: nothing
  std::optional<uint64_t> step_before;  // then: the last one that it recorded; none: it has none
};
struct KilledParts {
  struct Tensor {
    RecordIds ids;
    uint32_t ranks = 0;  // of `lists`: those that lack it, of several those that came least far
  };
  std::vector<KilledRank> ranks;
  std::vector<std::vector<uint32_t>> lists;  // of `ranks`
  std::vector<Tensor> tensors;
};

// Whether nobody has computed the parameters of the pair, but a seed or a file gave them: of one
// dtype they are equal. Those of step 0, which are recorded before anything runs. What `steps.skip`
// left out before it is not known here.
bool AreParametersGiven(const PassPair& pair);

// Two views, and which of their tensors belong together. A tensor may be in several pairs: copies
// on several ranks that should be equal and are not are compared one by one.
struct OpenedPair {
  std::unique_ptr<StepView> a, b;
  RecordPairing pairing;
  // Pairs that no layout gives one shape, whatever it is: what ranks hold is too large or too
  // small.
  std::vector<RecordIds> other_sizes;
  std::vector<LostCopy> lost_a, lost_b;
  RankLists rank_lists;  // of these
  KilledParts killed_a, killed_b;
  bool is_later_stage = false;  // of a pipeline: what it was given comes from the stage before
  bool parameters_given = false;
  std::vector<std::string> notes;
};

// `wanted` decides by record (its name); called for both sides.
using WantRecord = std::function<bool(const io::Record&)>;

struct PassViews {
  std::unique_ptr<StepView> a, b;
};
// Both show the same quantised tensors as they are stored (compare/stored_alike.h).
Result<PassViews> OpenViews(const RunSide& a, const RunSide& b, const PassPair& pair);

// One pass against one pass.
Result<OpenedPair> OpenPasses(const RunSide& a, const RunSide& b, const PassPair& pair,
                              const WantRecord& wanted);
// Equal keys.
RecordPairing PairRecords(const StepView& a, const StepView& b, const WantRecord& wanted);
// What that leaves, by argument and order of calls. Memory: of records whose name both sides left.
void PairSameNames(const StepView& a, const StepView& b, RecordPairing* pairing);

}  // namespace tdump::compare
