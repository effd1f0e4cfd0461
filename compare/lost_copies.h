// LostCopies: ranks that hold no copy of a tensor, although they should.
//
// That a rank holds none proves nothing: a stage of a pipeline lacks the layers of the others, and
// of what a sharded optimizer keeps one rank holds each tensor. A copy is lost where
//
//   1. the rank held the tensor at a step before, and it is a weight, or the pass of the rank is
//      unfinished: what an operator returns may come and go with the data, weights do not; or
//   2. the pass of the rank is unfinished, holds something of the module of a parameter, and lies
//      on a stage that holds it; the same of what an optimizer keeps of it, if the pass holds
//      nothing that an optimizer keeps.
//
// What the rank of one place lacks on both sides, in the same way, is no difference: it is what was
// asked for, or both runs ended alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compare/job_step.h"
#include "compare/pairing.h"

namespace tdump::compare {

// Of one side, over its steps. Not thread-safe. Memory: a bit for each rank of a job and each name
// that several ranks hold, and the modules of unfinished passes of one step.
class LostCopies {
 public:
  // Before the tensors of a step; it outlives them.
  void Begin(const JobStep& step);
  // Adds to `lost`, by rank, what ranks lack of a tensor of the step. `tensor`: its id.
  void Find(const Group& group, uint64_t tensor, std::vector<LostCopy>* lost);
  // Of ranks that are not among `ranks`, which hold the tensor and ascend: those that may hold it
  // but for what became of them. They held it before, or lie on a stage that holds it and their
  // pass of the step is unfinished, or lost.
  std::vector<int32_t> Lacking(const Group& group, const std::vector<int32_t>& ranks) const;
  // Which ranks have held the tensor so far, where several have; else null.
  const std::vector<bool>* HoldersOf(const Group& group) const;

 private:
  struct Unfinished {
    uint32_t stage = 0;
    std::unordered_set<std::string> modules;  // of which it holds something
    bool holds_states = false;                // what an optimizer keeps
  };
  bool IsLost(const Group& group, int32_t rank, bool held_before) const;

  const JobStep* step_ = nullptr;
  bool extra_ = false;
  std::unordered_map<int32_t, Unfinished> unfinished_;          // by rank; of the step
  std::unordered_set<int32_t> absent_;                          // ranks without a pass; of the step
  std::unordered_map<std::string, std::vector<bool>> held_by_;  // by name; by rank
};

// Of one tensor, found on both sides from these places on, whose ranks lie alike (LieAlike): takes
// out what a rank lost on both in the same way. Returns the first of these in `lost_a`.
std::optional<LostCopy> TakeOutCommon(size_t from_a, size_t from_b, std::vector<LostCopy>* lost_a,
                                      std::vector<LostCopy>* lost_b);

}  // namespace tdump::compare
