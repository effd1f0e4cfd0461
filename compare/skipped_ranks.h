// SkippedRanks: ranks of a step that did not run a module which the ranks beside them ran: an early
// return, a branch that depends on the rank.
//
// Replicas, shards and batches are made by one program, so that every rank of them runs the same
// modules. A rank skipped a call of a module where
//
//   1. its pass of the step is whole, neither the call nor a record of it is there, and other calls
//      of the same micro-batch are;
//   2. a rank of the same places in the layout has records of it, but for tp, dp, fsdp, cp and sp:
//      stages of a pipeline (pp) and ranks of experts (ep) run other modules;
//   3. its manifest, where it counts, says that the rules select the module there, that it was
//      called less often than on the others, and that nothing of it was lost to a limit; and
//   4. the module is no part of an expert, to which a batch may send nothing.
// A rank beside it on dp, fsdp or cp is given other data, of which a module (an encoder of images)
// may have nothing to do: what the others hold then is the whole of it. What ranks of the same
// places alone run on both sides (a log of the first one) is no fault: SkipAlike.
// Where nobody says how the ranks lie, only a rank that called the module at other steps can have
// skipped it. Operators that are no modules come and go: a rank may print what others do not.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compare/job_step.h"
#include "compare/run_side.h"
#include "compare/step_view.h"
#include "compare/topology.h"
#include "core/key.h"

namespace tdump::compare {

// Whether a rank that lacks the record may have skipped its call: it is of a module, and no weight.
bool MayBeSkipped(const io::Record& record);
// What a manifest says of an operator on a rank, against one that ran it; unknown: it may.
bool MayHaveSkipped(const OperatorUse& rank, const OperatorUse& other);

// The calls of a pass, of any operator. Immutable.
class CallsOfPass {
 public:
  explicit CallsOfPass(const StepView& view);
  // Whether it lacks the call of `record`, a record of another rank, of a micro-batch that it has.
  bool Lacks(const io::Record& record) const;

 private:
  struct Calls {
    uint64_t all = 0, recorded = 0;
  };
  std::unordered_map<std::string, Calls> calls_;  // by operator
  std::unordered_set<std::string> recorded_;      // as records name them
  std::unordered_set<uint32_t> micros_;
};

struct SkippedRank {
  int32_t rank = 0;
  bool has_other_data = false;  // than every rank that ran it
};

// Of one module, on one side.
struct RanksOfModule {
  std::vector<int32_t> ran, skipped;
};
// Whether both sides have a module run, or skipped, by ranks of the same places: on each axis of
// replicas by all, by the same ones, or by the last one. An axis that a side lacks has one place.
// Where nobody says how the ranks of one side lie, their numbers are their places.
bool SkipAlike(const Topology& topology_a, const RanksOfModule& a, const Topology& topology_b,
               const RanksOfModule& b);

// Of one side. Not thread-safe. Memory: the names of the calls of the ranks of one step.
class SkippedRanks {
 public:
  // Before the tensors of a step; it outlives them.
  void Begin(const JobStep& step);
  // Those that lack the group, ascending.
  std::vector<SkippedRank> Find(const Group& group);

 private:
  // Of one of the step's passes.
  struct Pass {
    bool is_whole = false;
    // Numbers of where its rank lies: of ranks that run the same modules, and that are given the
    // same data. None: the topology has no place for it.
    std::optional<uint32_t> beside, given;
  };
  const CallsOfPass& CallsOf(uint32_t pass);

  const JobStep* step_ = nullptr;
  std::vector<Pass> passes_;
  std::map<uint32_t, std::optional<CallsOfPass>> calls_;  // by pass, as asked for
};

}  // namespace tdump::compare
