// JobPairs: the steps of two sides whose ranks are put together, tensor by tensor: names mapped,
// shards joined, partners found.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compare/job_step.h"
#include "compare/killed_ranks.h"
#include "compare/left_out_sums.h"
#include "compare/load_shards.h"
#include "compare/lost_copies.h"
#include "compare/name_map.h"
#include "compare/pairing.h"
#include "compare/skipped_ranks.h"
#include "compare/stage_hint.h"
#include "core/status.h"

namespace tdump::compare {

struct JobOptions {
  std::optional<NameMap> map;
  std::vector<DimsRule> dims;          // the first that matches holds
  std::string topology_a, topology_b;  // "tp=4,dp=2", fastest axis first; "": what the capture says
};

// Not thread-safe. Remembers what it learnt of names at the first step.
class JobPairs {
 public:
  // All outlive it.
  JobPairs(const JobSide* a, const JobSide* b, const JobOptions* options)
      : a_(a), b_(b), options_(options), lie_alike_(LieAlike(*a, *b)), killed_a_(a), killed_b_(b) {}

  const JobSide& a() const { return *a_; }
  const JobSide& b() const { return *b_; }
  // `on_group`: may be empty; names of one side looked at so far, of how many. Error: the map fits
  // neither side's names.
  using OnGroup = std::function<void(size_t done, size_t all)>;
  Result<OpenedPair> Open(const PassPair& pair, const WantRecord& wanted,
                          const OnGroup& on_group = {});
  // "A has hf names, B megatron names"; "" without a map. After the first Open.
  std::string MapText() const { return bound_ ? bound_->text : ""; }
  // A note on layers of one name that differ between ranks of a side; "" where there are none, or
  // the places of the ranks are known. After the last Open.
  std::string StageNote() const;

 private:
  struct Step;
  // `made`: how, if not by equal names.
  void AddPair(const Group& left, const Group& right, const std::string& made, Step* step);
  static void KeepNext(const Key& key, const std::shared_ptr<const LoadedPair>& pair, Step* step);
  void AddHeld(Step* step);
  // The ids of the two tensors.
  std::pair<uint64_t, uint64_t> AddTensors(const Group& left, const Group& right,
                                           const LoadedShards& of_a, const LoadedShards& of_b,
                                           Result<ResolvedLayouts> layouts, const std::string& made,
                                           Step* step);
  struct Skipped {
    std::vector<SkippedRank> a, b;
    bool are_alike = false;      // SkipAlike, all of them: nothing to tell
    bool was_taken_out = false;  // what both sides skip alike
    bool any() const { return !a.empty() || !b.empty(); }
    bool ran_it() const;           // all of them: its call lacks this tensor alone
    bool have_other_data() const;  // all of them
  };
  Skipped FindSkipped(const Group& left, const Group& right, Step* step);
  // What ranks of other data hold is the whole of it.
  static void NoteOtherData(const Group& left, const Group& right, const Skipped& skipped,
                            Step* step);
  void AddSkipped(const Group& left, const Group& right, const LoadedShards& of_a,
                  const LoadedShards& of_b, Result<ResolvedLayouts> layouts,
                  const std::string& made, const Skipped& skipped, Step* step);
  // Whether the same ranks of both sides lack their parts, for what became of them.
  bool LackAlike(const Group& left, const Group& right, const Skipped& skipped,
                 const Step& step) const;
  // What each rank holds against what its like holds. `why`: for the report.
  void AddRankByRank(const Group& left, const Group& right, const std::string& made,
                     std::string_view why, Step* step);
  // The ids of the tensors, each followed by those of its copies, which are paired.
  struct Put {
    std::vector<uint64_t> a, b;
  };
  Put PutPair(const Group& left, const Group& right, const LoadedShards& of_a,
              const LoadedShards& of_b, Result<ResolvedLayouts> layouts, const std::string& made,
              Step* step);
  // Of the pair of these ids; before FindLost.
  void AddKilled(const Group& left, const Group& right, RecordIds ids, const Step& step);
  void FindLost(const Group& left, const Group& right, RecordIds ids, Step* step);
  void PairLeft(const std::vector<const Group*>& left, const std::vector<const Group*>& right,
                const WantRecord& wanted, Step* step);

  const JobSide* a_;
  const JobSide* b_;
  const JobOptions* options_;
  const bool lie_alike_;
  std::optional<BoundMap> bound_;
  LayoutMemory memory_a_, memory_b_;
  StageHint stages_a_, stages_b_;
  LostCopies lost_a_, lost_b_;
  bool told_common_ = false;  // that both sides lack something alike
  SkippedRanks skipped_a_, skipped_b_;
  KilledRanks killed_a_, killed_b_;
};

}  // namespace tdump::compare
