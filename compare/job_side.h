// JobSide: a side whose unit of comparison is a step of all its ranks together, not the pass of
// one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "compare/pairing.h"
#include "compare/run_side.h"
#include "compare/topology.h"
#include "core/status.h"

namespace tdump::compare {

// Thread-safe. `base` outlives it.
class JobSide : public RunSide {
 public:
  // Of the ranks that are selected. `topology`: as the user gave it, "tp=4,dp=2"; "": what the
  // capture says, else unknown. Error: a topology that is none of this side's world.
  static Result<JobSide> Make(const RunSide* base, const PairOptions& options,
                              const std::string& topology);

  SideInfo Describe() const override { return base_->Describe(); }
  const std::string& label() const override { return base_->label(); }
  int32_t world() const override { return base_->world(); }
  std::optional<int32_t> rank() const override { return base_->rank(); }
  std::optional<uint64_t> step() const override { return base_->step(); }
  bool is_of_named_records() const override { return base_->is_of_named_records(); }

  // One for each step (of agreed and extra ones, and of each process of a rank, apart), of rank
  // kAllRanks.
  const std::vector<PassRef>& passes() const override { return steps_; }
  // A view of what each name's first rank holds.
  Result<std::unique_ptr<StepView>> Open(const PassRef& step) const override;
  bool IsLost(int32_t rank) const override { return base_->IsLost(rank); }
  std::vector<io::Damage> DamageOf(int32_t rank) const override { return base_->DamageOf(rank); }
  std::string CoordinatesOf(int32_t rank) const override { return base_->CoordinatesOf(rank); }
  std::string WhyMissing(int32_t rank) const override { return base_->WhyMissing(rank); }

  // The passes of a step, by rank.
  const std::vector<PassRef>& PassesOf(const PassRef& step) const { return members_[step.index]; }
  const RunSide& base() const { return *base_; }
  const Topology& topology() const { return topology_; }
  // Ranks that have a pass in any step.
  const std::vector<int32_t>& Ranks() const { return ranks_; }
  // Those that were lost before they wrote a pass.
  const std::vector<int32_t>& lost() const { return lost_; }
  // Of both, the ones that have no pass in this step, or an unfinished one without records.
  std::vector<int32_t> RanksWithout(const PassRef& step) const;
  // Passes that ranks lack in this step but have in another one, under its numbers: of each rank
  // the last one before, else the first one. Of a dump of another tool, which has no manifest that
  // says what else became of a pass.
  std::vector<PassRef> PassesAbsent(const PassRef& step) const;
  // Of the ranks that are selected, those that were killed.
  const std::map<int32_t, KilledState>& killed() const { return killed_; }

 private:
  bool HasRecords(const PassRef& pass) const;
  std::vector<int32_t> FindLost(const PairOptions& options) const;
  void SortByRank();
  std::vector<int32_t> FindRanks() const;

  explicit JobSide(const RunSide* base) : base_(base) {}

  const RunSide* base_;
  Topology topology_;
  std::vector<PassRef> steps_;  // PassRef::index: into members_
  std::vector<std::vector<PassRef>> members_;
  // Of a dump of another tool: by process, whether extra, and number; by rank; in order of steps.
  using Alike = std::tuple<uint32_t, bool, uint32_t>;
  static Alike AlikeOf(const PassRef& pass) { return {pass.process, pass.extra, pass.nth}; }
  std::map<Alike, std::map<int32_t, std::vector<PassRef>>> by_rank_;
  std::vector<int32_t> ranks_, lost_;  // ascending
  std::map<int32_t, KilledState> killed_;
};

// Whether the captures of both say where their ranks lie, as many, and say otherwise. Axes of one
// place do not count, nor how the only data parallel axis is called.
bool LieOtherwise(const RunSide& a, const RunSide& b);
// Whether there are as many ranks on both, and nothing says that one of them lies otherwise.
bool LieAlike(const JobSide& a, const JobSide& b);

}  // namespace tdump::compare
