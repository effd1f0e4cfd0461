// SkippedRanks: ranks of a step that did not run a module which the ranks beside them ran: an early
// return, a branch that depends on the rank.
//
// Replicas, shards and batches are made by one program, so that every rank of them runs the same
// modules. A rank skipped a call of a module where
//
//   1. its pass of the step is whole, and neither the call nor a record of it is there;
//   2. a rank of the same places in the layout has records of it, but for tp, dp, fsdp, cp and sp:
//      stages of a pipeline (pp) and ranks of experts (ep) run other modules;
//   3. its manifest, where it counts, says that the rules select the module there, and that nothing
//      of it was lost to a limit (of a rank that has nothing of the step it must say so); and
//   4. the module is no part of an expert, to which a batch may send nothing.
// Of a rank that was given other data (compare/given_data.h) than all that ran it, a module (an
// encoder of images) may have nothing to do: what the others hold then is the whole of it, unless
// they hold the same though their data is not (compare/lacked_calls.h); and it may have had fewer
// micro-batches. Where no hash tells, ranks that lie apart on dp, fsdp or cp were given other data,
// and no others. What ranks of the same places alone run on both sides (a log of the first one) is
// no fault: SkipAlike. Of such a rank a call may lack a tensor too (images that it was not given).
// Where nobody says how the ranks lie, only a rank that called the module at other steps can have
// skipped it. Operators that are no modules come and go: a rank may print what others do not.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compare/given_data.h"
#include "compare/job_step.h"
#include "compare/lacked_calls.h"
#include "compare/run_side.h"
#include "compare/step_view.h"
#include "compare/topology.h"
#include "core/key.h"

namespace tdump::compare {

// Whether a rank that lacks the record may have skipped its call: it is of a module, and no weight.
bool MayBeSkipped(const io::Record& record);
// Whether ranks that lie apart on the axis are given the same.
bool SharesData(const std::string& axis);
// Whether they run the same modules.
bool IsOfReplicas(const std::string& axis);

// The calls of a pass, of any operator. Immutable. Memory: a few words a call.
class CallsOfPass {
 public:
  explicit CallsOfPass(const StepView& view);
  // Whether it lacks the call of `record`, a record of another rank.
  bool Lacks(const io::Record& record) const;
  // Whether it has tensors of the role of that call.
  bool HasRole(const io::Record& record) const;
  // Whether it has anything of it.
  bool HasMicroBatch(uint32_t micro) const;
  bool is_empty() const { return micros_.empty(); }

 private:
  struct Calls {
    uint64_t name = 0;  // hash
    uint64_t all = 0, recorded = 0;
  };
  std::vector<Calls> calls_;        // by operator
  std::vector<uint64_t> recorded_;  // hashes of calls as records name them, ascending
  std::vector<uint64_t> roles_;     // the same with a role
  std::vector<uint32_t> micros_;    // ascending
};

// Whether what the manifest of a rank says of the operator allows it; unknown: it does, unless the
// rank has no call of the step.
bool MayHaveSkipped(const OperatorUse& use, const CallsOfPass& calls);

struct SkippedRank {
  int32_t rank = 0;
  bool has_other_data = false;  // than every rank that ran it
  bool is_data_known = false;   // by hash, not by its place alone
  bool ran_it = false;          // its call lacks this tensor
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

// Of one side. Not thread-safe. Memory: a few words for each call and input of the ranks of a step.
class SkippedRanks {
 public:
  // Before the tensors of a step; it outlives them.
  void Begin(const JobStep& step);
  // Those that lack the group, a group of the step, ascending.
  std::vector<SkippedRank> Find(const Group& group);

 private:
  // Of one of the step's passes.
  struct Pass {
    bool is_whole = false;
    // Numbers of where its rank lies: of ranks that run the same modules, that are given the same
    // data, and that are given parts of one batch. None: the topology has no place for it.
    std::optional<uint32_t> beside, given, batch;
  };
  const CallsOfPass& CallsOf(uint32_t pass);
  const GivenData& DataOf(uint32_t pass);
  // Of a rank that lacks it, against those beside it that ran it, in that micro-batch.
  struct Given {
    bool is_other = false, is_known = false;
  };
  Given GivenTo(uint32_t pass, const std::vector<uint32_t>& ran, uint32_t micro);
  // Whether what a rank lacks with the group is the same for all data.
  bool IsOfNoData(const Group& group, uint32_t lacking, uint32_t micro);
  bool AreSameByPlace(uint32_t pass, uint32_t other) const;

  const JobStep* step_ = nullptr;
  std::vector<Pass> passes_;
  LackedCalls lacked_;
  // By pass, as asked for.
  std::map<uint32_t, CallsOfPass> calls_;
  std::map<uint32_t, GivenData> data_;
  // By pass, against the ranks of the tensor before: mostly the same ran it.
  std::pair<std::vector<uint32_t>, uint32_t> told_of_;  // passes, micro-batch
  std::unordered_map<uint32_t, Given> told_;
};

}  // namespace tdump::compare
