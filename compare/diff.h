// Diff: two runs (or two ranks) compared, operator by operator. The library behind tdump-diff.
//
//   1. Pair the passes (pairing.h), in order of step and rank. Where the sides have other numbers
//   of
//      ranks, or names or layouts are mapped, steps are paired instead, and the ranks of each put
//      together (job_pairs.h).
//   2. Of each pair of passes: pair the records, compare them (equal hashes are not read; the rest
//      is streamed once), note the first difference of the pass (origin_finder.h). Then the pass is
//      forgotten but for its numbers.
//   3. Choose the origin over ranks and steps, judge, report.
// Memory: one pass's metadata, a few tiles a thread, and what the report lists.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "compare/bounds_used.h"
#include "compare/job_pairs.h"
#include "compare/origin_finder.h"
#include "compare/pairing.h"
#include "compare/row.h"
#include "compare/team.h"

namespace tdump::compare {

// A record, all selected records of a pass (empty name), or copies of them on one rank, without a
// partner.
struct Unpaired {
  char side = 'A';
  uint64_t step = 0;
  int32_t rank = 0;
  std::optional<int32_t> against;  // the rank it was compared with, where that is another replica
  std::string name, key;
  // The rank of the other side that holds no copy of them, although it should: `name` is the first.
  std::optional<int32_t> lacking;
  bool extra = false;    // a pass the rank ran beyond the others
  uint64_t records = 0;  // of a whole pass, or that a rank lacks
  std::string why;       // what is known of the other side: "rank 2 was killed in step 1"
  bool allowed = false;
};

// A weight that is off after something else was.
struct FollowingWeight {
  std::string name;
  int32_t rank = 0;
  uint64_t step = 0;
  bool buffer = false;
  bool special = false;           // NaN or infinities are on one side
  std::optional<double> sqnr_db;  // of what is finite on both

  bool has_distance() const { return special || sqnr_db; }
  bool IsFartherThan(const FollowingWeight& other) const {
    if (special != other.special) return special;
    return sqnr_db && (!other.sqnr_db || *sqnr_db < *other.sqnr_db);
  }
};

// Numbers of distinct names.
struct ParameterReport {
  uint64_t compared = 0, differing_names = 0;
  uint64_t buffers_compared = 0, buffers_differing = 0;
  uint64_t drifted_names = 0, buffers_drifted = 0;  // of those: equal when they were first recorded
  // Outside their bound at a later step, after something else was, and not counted above.
  uint64_t following_names = 0, buffers_following = 0;
  std::optional<FollowingWeight> farthest, buffers_farthest;  // of those; none: not known
  // Differ, are allowed to, and are not counted above.
  uint64_t allowed_names = 0, buffers_allowed = 0;
  uint64_t allowed_from_start = 0, buffers_allowed_from_start = 0;  // when first recorded
  uint64_t pairs = 0;           // of either, over ranks and steps
  uint64_t by_statistics = 0;   // pairs that agree as far as these tell
  uint64_t not_judged = 0;      // pairs of which shape and dtype alone are known; not counted above
  uint64_t alone = 0;           // records of either without a partner
  bool of_other_steps = false;  // some were recorded at other work on each side, and left out
  uint64_t failing_pairs = 0;   // of either; what is allowed to is none
  uint64_t by_hash = 0;         // of the names that differ: nothing says by how much
  std::set<uint64_t> first_steps;  // of B, at which those that are counted were first recorded
  std::vector<ParameterDifference> differing;  // the first ones
};

// Of the root inputs that fail: how far they are apart.
struct InputDistance {
  bool is_read = true;       // values of all of them were, in one dtype and shape
  double least_sqnr_db = 0;  // of what was read
  std::string max_abs_text;  // of that one; "" none was
  std::map<std::string, std::set<std::string>> args;  // by the plain name of the root
};

struct InputReport {
  uint64_t compared = 0;                         // pairs of root inputs
  uint64_t equal = 0;                            // bit by bit
  uint64_t by_statistics = 0;                    // agree as far as these tell
  uint64_t not_judged = 0;                       // shape and dtype alone are known of both
  uint64_t differing_pairs = 0;                  // that fail
  uint64_t differing_by_hash = 0;                // of them: by how much is not known
  std::optional<uint64_t> first_differing_step;  // of B
  // Argument names, of a second root with that: "kwargs.tokens", "1 of CrossEntropyLoss".
  std::vector<std::string> differing;
  std::optional<InputDistance> distance;
  uint64_t alone = 0;  // root inputs without a partner
  // Token ids (integer inputs of the model) differ from first_differing_step on: what follows is
  // other work, and nothing of it was judged.
  bool judging_stopped = false;
  uint64_t passes_not_judged = 0;
};

// Of a comparison in which the ranks of each side were put together.
struct JobReport {
  std::vector<int32_t> ranks_a, ranks_b;
  std::string topology_a, topology_b;            // "tp=4 dp=2"; "" unknown
  std::string map;                               // what a map was found to mean
  std::map<std::string, uint64_t> how_a, how_b;  // "concatenated on tp (inferred)": tensors
};

struct Counts {
  uint64_t paired = 0, judged = 0, failing = 0, allowed = 0;
  uint64_t allowed_by_hash = 0;  // of neither: weights known to differ, and allowed to
  uint64_t agreeing = 0;         // judged, as far as that goes: neither failing nor allowed to
  uint64_t failing_by_hash = 0;  // of `failing`: known to differ, nothing says by how much
  uint64_t bits_equal = 0, equal_by_hash = 0, read = 0, not_judged = 0, unproven = 0;
  uint64_t nan_on_both = 0;       // read, and both sides hold NaN
  uint64_t by_statistics = 0;     // agree as far as these tell
  uint64_t unproven_weights = 0;  // of `unproven`: parameters, buffers, what optimizers keep
  uint64_t unproven_states = 0;   // of those: the latter, which are not allowed to
  // Of those: of the first step that has any, although nothing differs that they are made of
  // (compare/unexplained_states.h).
  uint64_t unexplained_states = 0;
  uint64_t unresolved = 0;  // could not be put together; they fail
  uint64_t unreadable = 0;  // pairs of which a side is damaged; nothing else is said of them
  uint64_t shape = 0, dtype = 0, special = 0, bits = 0, tolerance = 0;  // differing in
  // What is left of `paired`: statistics that differ were all there was; shape or dtype differs.
  uint64_t not_by_statistics = 0, of_other_kind = 0;
  uint64_t passes_paired = 0;
  // Records; a whole pass counts its records.
  uint64_t unpaired_a = 0, unpaired_b = 0, unpaired_allowed = 0;
  uint64_t bytes_read = 0;  // of both sides
};

// The rule of a capture that keeps weights at every step; by default they are at the first one.
inline constexpr std::string_view kCaptureWeights = "{role: [param], level: hash}";

// Of paired steps in which nothing was judged, though something was in others.
struct StepsNotJudged {
  enum class Why : uint8_t { kNoRecord, kAlone, kUnreadable, kTooLittle };
  Why why = Why::kNoRecord;
  std::vector<uint64_t> steps;  // of B; sorted
};

// kDamaged: something that was selected could not be read; whatever the rest says.
enum class Overall : uint8_t { kSame, kDiffers, kNotComparable, kDamaged };
std::string_view ToString(Overall overall);  // "same", "differs", "not comparable", "damaged"

// How far a comparison is.
struct Progress {
  size_t passes_done = 0, passes = 0;
  // In the pass that is next: tensors put together, then pairs compared, of how many; 0 of 0: not
  // begun.
  enum class Doing : uint8_t { kPuttingTogether, kComparing };
  Doing doing = Doing::kComparing;
  size_t done = 0, all = 0;
};

struct DiffOptions {
  PairOptions pairing;
  PassDiffOptions pass;
  RecordPatterns allow_unpaired;
  std::string across;  // the axis along which replicas of one run are compared (across.h)
  std::optional<JobOptions> job;  // ranks are put together even where both sides have as many
  // To advise one where nothing is paired; asked for only then. Empty: none.
  std::function<std::vector<NameMap>()> shipped_maps;
  size_t top = 5;                          // failing rows and unpaired records listed; ~0: all
  std::function<void(const Row&)> on_row;  // every pair, in order of step, rank and time
  std::function<void(const Unpaired&)> on_unpaired;  // every one
  // Every pair of passes that is judged, while both are open, in order of step and rank.
  std::function<void(const PassDiff&, const PassPair&)> on_pass;
  std::function<void(const Progress& progress)> on_progress;  // never two calls at once
  // Processes that share the work; the report of process 0 is the one that counts.
  Team* team = nullptr;
};

struct DiffReport {
  Overall overall = Overall::kNotComparable;
  std::string why_not;  // of kNotComparable, with what to do
  Counts counts;
  std::vector<std::pair<uint64_t, uint64_t>> steps;  // paired: A, B
  bool steps_aligned = false;                        // by equal integer inputs
  std::vector<StepsNotJudged> steps_not_judged;      // one for each reason
  bool lists_all = false;                            // of what differs, however much it is
  bool selects = false;                              // some names only
  bool named = false;                                // records that an address names only
  std::string across;                                // of the options
  // Paired: A, B. None where the ranks of each side were put together: see `job`.
  std::vector<std::pair<int32_t, int32_t>> ranks;
  std::optional<JobReport> job;
  std::string dtype_a, dtype_b;  // of most tensors, in the first pair of passes
  ParameterReport parameters;
  InputReport inputs;
  BoundsUsed bounds;
  std::unordered_set<const BoundRule*> rules_used;  // that decided some pair; of the options
  Growth growth;  // of the error, in the pass that holds the origin, else in the first
  std::optional<Origin> origin;
  std::optional<Origin> first_bits;  // the first difference in bits, where it is not the origin
  // Where weights that parted on the way may be the harmless cause of the origin: the first
  // difference that they do not make (compare/origin.h, 5).
  std::optional<Origin> beyond_drift;
  // The first ones, in order of step, rank and time: those that count, then those that are allowed.
  std::vector<Row> failing;
  std::vector<Unpaired> unpaired;
  std::vector<std::string> signature;  // in what the runs differ before any value is looked at
  std::vector<std::string> notes;      // "layout differs ..." and the like, with how often
  std::vector<io::Damage> damage;
};

Result<DiffReport> Diff(const RunSide& a, const RunSide& b, const DiffOptions& options);

}  // namespace tdump::compare
