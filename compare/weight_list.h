// WeightList: parameters and buffers, counted by name, and those that differ listed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "compare/diff.h"
#include "compare/optimizer_steps.h"
#include "compare/origin_finder.h"
#include "compare/pass_diff.h"

namespace tdump::compare {

// Not thread-safe. Both outlive it.
class WeightList {
 public:
  WeightList(const OriginFinder* finder, DiffReport* report) : finder_(finder), report_(report) {}

  // Any outcome.
  void See(const Outcome& outcome, uint64_t step);
  // Of the first step that has the weight; of a later one, which depends on what was computed,
  // where no step before it differs: then what updates the weight does; else it follows. What an
  // optimizer keeps, "weight.exp_avg", depends on what was computed from the start. `rank`: of the
  // pass; where ranks are put together the row's is that of one element.
  void Add(const Row& row, int32_t rank, const Outcome& outcome);
  // Once all are added.
  void CountNames();

  // Of those outside their bound, else of those of which nothing says by how much, the first.
  // Precondition: some weight differs.
  Origin FirstDiffering() const;
  // Whether the optimizer of B may divide by the size of the gradient.
  bool MayDivide(const RunSide& b) const { return steps_.MayDivide(b.Facts().boundary); }
  // Whether weights may have parted before the origin without being recorded at its step.
  bool AreUnseen(const Origin& origin, const RunSide& b) const;

 private:
  struct Names {
    std::set<std::string> seen, differing;
    std::set<std::string> from_start;  // of `differing`: when they were first recorded
    std::set<std::string> measured;    // of `differing`: by how much is known
    std::set<std::string> allowed, allowed_from_start;  // differ, and may; none of `differing`
    uint64_t drifted() const { return differing.size() - from_start.size(); }
    uint64_t by_hash() const { return differing.size() - measured.size(); }
  };

  ParameterDifference DifferenceOf(const Row& row, int32_t rank, const Outcome& outcome,
                                   bool later) const;
  void AddAllowed(const Row& row, bool later);
  void AddFollowing(const Row& row, const Outcome& outcome);

  const OriginFinder* finder_;
  DiffReport* report_;
  Names parameters_, buffers_;
  std::optional<ParameterDifference> first_outside_;
  std::map<std::string, FollowingWeight> following_;  // the farthest of each name
  // At which a weight was judged, by rank and name.
  std::map<std::pair<int32_t, std::string>, uint64_t> first_steps_;
  OptimizerSteps steps_;
  std::set<uint64_t> seen_at_;          // steps of B
  std::optional<uint64_t> first_step_;  // of B, of anything
  bool trains_ = false;                 // gradients were seen
};

}  // namespace tdump::compare
