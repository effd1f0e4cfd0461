// Replicas of one run: along an axis of its layout, each rank against the first of its group.
//
//   TDUMP_ASSIGN_OR_RETURN(const Replicas replicas, Replicas::Along("dp", topology));
//   Diff(ReplicaSide(run, replicas, /*first=*/true), ReplicaSide(run, replicas, false), options);
//
// What is compared: what the ranks of a group hold as copies. A tensor that its dims or placements
// split over the axis, or leave as partial sums, is not one. Nor are the tensors of a step for
// which the ranks were given other inputs (batches of data parallel ranks): of such a step only
// parameters and buffers are compared, and that both ran the same modules: gradients are captured
// before they are reduced. A module for which one batch has nothing is listed too: nothing here
// tells it from one that was skipped.
// Payloads of collectives are not captured yet; their checks (all ranks of an all-reduce hold its
// sum) will be further pairs of these two sides.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "compare/run_side.h"
#include "compare/topology.h"

namespace tdump::compare {

// Immutable.
class Replicas {
 public:
  // Error (kInvalidArgument): the layout is not known or has no such axis, which names those it
  // has; the axis has one rank; `pp`, whose ranks hold different layers.
  static Result<Replicas> Along(std::string_view axis, const Topology& topology);

  const std::string& axis() const { return axis_; }
  int32_t world() const { return world_; }
  // The first rank of the group of a rank; none where its place is not known.
  std::optional<int32_t> FirstOf(int32_t rank) const;

 private:
  std::string axis_;
  int32_t world_ = 0;
  std::vector<int32_t> first_;  // by rank, -1 for none
};

// Side A: for each rank that is not the first of its group, the first's passes under that rank's
// number. Side B: that rank's own. The run and the replicas outlive it.
class ReplicaSide : public RunSide {
 public:
  ReplicaSide(const RunSide& run, const Replicas& replicas, bool first);

  SideInfo Describe() const override;
  RunFacts Facts() const override { return run_.Facts(); }
  const std::string& label() const override { return label_; }
  int32_t world() const override { return run_.world(); }
  const std::vector<PassRef>& passes() const override { return passes_; }
  Result<std::unique_ptr<StepView>> Open(const PassRef& pass) const override;
  Result<io::PassDigest> DigestOf(const PassRef& pass) const override;
  std::vector<io::Damage> DamageOf(int32_t rank) const override;
  std::string CoordinatesOf(int32_t rank) const override;
  std::string WhyMissing(int32_t rank) const override;

 private:
  int32_t RankBehind(int32_t rank) const;
  // Whether the ranks of a pass and of its group's first were given equal inputs; none known: no.
  bool SameInputs(const PassRef& pass) const;
  // What the rank that `pass` is compared with did not run of it.
  std::function<bool(const io::Record&)> SkippedBeside(const PassRef& pass) const;

  const RunSide& run_;
  const Replicas& replicas_;
  const bool first_;
  std::string label_;
  std::vector<PassRef> passes_;  // PassRef::index: into run_passes_
  std::vector<PassRef> run_passes_;
  // By rank, step, process, extra, nth.
  using PassKey = std::tuple<int32_t, uint64_t, uint32_t, bool, uint32_t>;
  static PassKey KeyOf(const PassRef& pass, int32_t rank) {
    return {rank, pass.step, pass.process, pass.extra, pass.nth};
  }
  std::map<PassKey, size_t> places_;  // into run_passes_
};

}  // namespace tdump::compare
