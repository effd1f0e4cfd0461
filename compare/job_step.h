// JobStep: one step of all ranks of a side, as tensors that are whole.
//
//   1. Open opens the ranks' passes; Gather groups their records under the names by which they are
//      compared (Group): a map may take a record apart, and layers that the stages of a pipeline
//      number from 0 on get their number in the model. Of what every stage has, the model itself
//      say, inputs are the first stage's and outputs the last one's; integers that the last one
//      alone is given (labels) are a tensor of their own.
//   2. The caller (compare/job_pairs.h) finds how the shards of a group make one tensor, and adds
//      that tensor.
//   3. From then on it is a StepView of the tensors that were added, for any number of threads.
// Memory: a few words for each record of the step, the record and the boxes of each tensor, and
// what is read ahead.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "compare/infer_layout.h"
#include "compare/job_side.h"
#include "compare/job_time.h"
#include "compare/name_map.h"
#include "compare/run_side.h"
#include "compare/step_view.h"
#include "core/key.h"
#include "core/status.h"

namespace tdump::compare {

// One rank's record, or the part of it that goes under the group's name.
struct Member {
  uint32_t pass = 0;  // of the step
  uint32_t part = 0;  // of those that the map makes of the record
  uint64_t id = 0;    // in that pass
};

// The records of one name, by rank. Where one rank gave a name twice, the second is in a group of
// its own.
struct Group {
  Key key;  // shared by both sides
  std::vector<Member> members;
  bool skip = false;  // the map says that the other side has nothing like it
  uint64_t nth = 0;   // of the groups of this name
};

// What a member holds.
struct MemberData {
  io::Record record;  // as it was captured
  MappedPart mapped;  // without a map: the whole record under its own name
  Shape shape() const;
};

struct ShardRef {
  Member member;
  std::shared_ptr<const TensorPart> part;  // none: the whole record
};

// A tensor that is put together, and those that are the same but for one shard: copies on several
// ranks that should be equal and are not.
struct WholeTensor {
  // The shard `other` in the place of `first`.
  struct Copy {
    uint32_t first = 0, other = 0;
  };
  io::Record record;       // the first member's, but for what the whole has of its own
  std::string how;         // for the report
  std::string how_copies;  // the same of the copies, but for their ranks
  std::string mean_dims;   // where a mean agrees with the data, and its layout does not: FindMean
  Status state;
  int32_t rank = kAllRanks;      // the only one of which it is
  std::vector<ShardRef> shards;  // that it and its copies consist of
  std::vector<Copy> copies;
  // Its shards are indices of `shards`. None: it is shards[0], as it lies.
  std::shared_ptr<const LayoutCandidate> layout;
  // Of shards that are known by their hashes, and may differ: theirs, and those of the other
  // side's, in the order of the plan.
  std::vector<io::Hash128> hashes, other_hashes;
};

class JobStep : public StepView {
 public:
  // `side` outlives it. A pass that cannot be opened is damage of the step.
  static Result<std::unique_ptr<JobStep>> Open(const JobSide& side, const PassRef& step);

  // Of the ranks, as they were captured. What is shown otherwise (ShowStored) is before Gather.
  std::vector<StepView*> views() const;

  // Distinct names and shapes over the ranks, for binding a map.
  std::vector<NamedTensor> Names() const;
  // `map` may be null; it outlives the step.
  void Gather(const MapSide* map);

  const std::vector<Group>& groups() const { return groups_; }  // in order of first appearance
  const Topology& topology() const { return side_.topology(); }
  int32_t world() const { return side_.world(); }
  const RunSide& base() const { return side_.base(); }  // of the ranks' passes
  int32_t RankOf(const Member& member) const { return refs_[member.pass].rank; }
  const std::vector<PassRef>& passes() const { return refs_; }  // of the ranks; as views()
  uint32_t StageOf(uint32_t pass) const;  // of a pipeline; 0 where the job is none
  Result<MemberData> DataOf(const Member& member) const;
  Result<Source> OpenShard(const ShardRef& shard) const;
  // What is to be told of the step: layers that were given other numbers, records that the map
  // cannot take apart.
  const std::vector<std::string>& notes() const { return notes_; }

  // `first`: of the group's members. Its call and time become the tensor's. Returns the ids: the
  // tensor's, then its copies'.
  std::vector<uint64_t> Add(WholeTensor tensor, const Member& first);
  // Once all tensors are added.
  void ForgetGroups() { groups_ = {}; }
  // Every group's first record, as it lies.
  void AddFirstOfEach();

  Status ForEachTensor(const VisitTensor& visit) const override;
  Result<io::Record> Get(uint64_t id) const override;
  const io::Record* Known(uint64_t id) const override;
  Result<ReadBytes> Open(const io::Record& record) const override;
  Status ForEachCall(const VisitCall& visit) const override;
  const std::vector<io::Damage>& damage() const override { return damage_; }
  bool is_assembled() const override { return true; }
  std::string LayoutOf(uint64_t id) const override;
  bool IsJoined(uint64_t id) const override;
  Status StateOf(uint64_t id) const override;
  std::string DimsOfMean(uint64_t id, uint64_t times) const override;
  std::string DimsOfAgreeingMean(uint64_t id) const override;
  int32_t RankAt(uint64_t id, std::span<const uint64_t> position) const override;
  std::vector<int32_t> RanksApart(uint64_t id) const override;

 private:
  explicit JobStep(const JobSide& side) : side_(side) {}
  std::vector<MappedPart> PartsOf(uint32_t pass, const io::Record& record, Status* status) const;
  void NumberLayers();
  void KeepEnds();
  std::vector<Member> LabelsAmong(const std::vector<Member>& members, uint32_t first,
                                  uint32_t last) const;
  Key GlobalKey(uint32_t pass, Key key) const;
  void SetTimes(uint32_t pass, io::Record* record) const;
  // What an id stands for. `copy`: none for the tensor itself.
  struct Found {
    const WholeTensor* tensor = nullptr;
    const WholeTensor::Copy* copy = nullptr;
    size_t Shard(size_t shard) const {
      return copy != nullptr && copy->first == shard ? copy->other : shard;
    }
    const ShardRef& Front() const { return tensor->shards[Shard(0)]; }
  };
  Found Find(uint64_t id) const;
  // Of its shards; none: not known. Error: a copy's cannot be read.
  Result<std::vector<io::Hash128>> HashesOf(const Found& found) const;

  const JobSide& side_;
  const MapSide* map_ = nullptr;
  std::vector<PassRef> refs_;                     // of the step, by rank
  std::vector<std::unique_ptr<StepView>> views_;  // of refs_
  uint32_t stages_ = 1;
  JobTime time_;
  std::vector<std::vector<uint64_t>> layers_before_;  // [stage][chunk]; empty: numbers are global
  std::vector<Group> groups_;
  struct Place {
    uint32_t tensor = 0;
    uint32_t copy = 0;  // from 1 on; 0: the tensor itself
  };
  std::deque<WholeTensor> tensors_;
  std::vector<uint32_t> first_pass_;  // of tensors_: whose call they are of
  std::vector<Place> places_;         // id - 1
  std::vector<bool> leads_;           // of refs_: the call of some tensor is one of its calls
  std::vector<io::Damage> damage_;
  std::vector<std::string> notes_;
};

}  // namespace tdump::compare
