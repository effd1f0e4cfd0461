// KilledRanks: ranks that were killed in a step, and the tensors of it of which their part is
// missing. It excuses nothing: what differs there differs, but it says whose fault that is
// (compare/killed_origin.h).
//
// A rank was killed in a step where its process left no closing record and runs no more, and its
// last pass is the unfinished one of this step; or is of an earlier step, and nothing of this one
// came to the disk. Of a tensor that comes after what the rank recorded last, and of which it has
// none, its part is missing, unless the same rank of the other side lacks it too, where
//
//   1. the rank had some of it at a step before (compare/lost_copies.h); or
//   2. nothing is known of a step before, and all ranks beside it that came so far have some; what
//      experts do and what optimizers keep is left out, of which ranks have what they need. Beside
//      it are ranks of the same places, but for axes of replicas (compare/skipped_ranks.h); where
//      nobody says how the ranks lie, those that had the same tensors as this one until then, and
//      no others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "compare/job_side.h"
#include "compare/job_step.h"
#include "compare/lost_copies.h"
#include "compare/pairing.h"

namespace tdump::compare {

// Of one side. Not thread-safe. Memory, in a step in which a rank was killed: a few words for each
// tensor, and a bit for each pass and set of ranks that lie beside each other.
class KilledRanks {
 public:
  // It outlives this.
  explicit KilledRanks(const JobSide* side) : side_(side) {}

  // Before the tensors of a step; it outlives them.
  void Begin(const JobStep& step);
  // Whether a rank was killed in the step, or before it.
  bool has_any() const { return !killed_.empty(); }
  // A tensor, of a group of the step. `alike`: ranks that lack it on the other side too, ascending:
  // their part is not missing.
  void Add(const Group& group, RecordIds ids, uint64_t seen, std::vector<int32_t> alike = {});
  // After the last one. `before`: of this side.
  KilledParts Finish(const LostCopies& before);

 private:
  struct Tensor {
    const Group* group = nullptr;
    RecordIds ids;
    uint64_t seen = 0;  // in the order of this side
    std::vector<int32_t> alike;
  };
  struct Killed {
    KilledRank rank;
    std::optional<uint32_t> pass;  // of the step
    std::optional<size_t> last;    // of tensors_: the last one of which it has some
    uint64_t reach = 0;            // when that was seen; 0: it has none
    std::optional<size_t> beside;  // of beside_; none: nothing tells, or steps before do
  };
  // A set of passes.
  using Passes = std::vector<bool>;

  void FindReach();
  void NameLast();
  void FindBeside();
  Passes BesideByPlace(const Killed& killed) const;
  size_t AddBeside(Passes passes);
  // Whether it comes after all of which the rank has some.
  bool IsBehind(const Tensor& tensor, const Killed& killed) const;
  // Whether some of them have some of it, and all that came further.
  bool AllHold(const Passes& beside, const Tensor& tensor, const Passes& holders) const;
  // Of those that lack it the ones that came least far, as indices.
  std::vector<uint32_t> Lacking(const Tensor& tensor, const LostCopies& before) const;

  const JobSide* side_;
  const JobStep* step_ = nullptr;
  bool is_first_step_ = true;
  std::vector<Tensor> tensors_;  // by `seen`, once all are there
  std::vector<Killed> killed_;   // by `reach`
  std::vector<uint64_t> reach_;  // of each pass; those that are finished came to the end
  std::vector<Passes> beside_;
};

}  // namespace tdump::compare
