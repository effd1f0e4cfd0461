// Unshard: what several ranks hold of one tensor, put together as its Dims say.
//
//   1. Plan from shapes and coordinates alone: nothing is read. Every shard is found a place; what
//      is missing or contradicts is an error that names the ranks.
//   2. Compare the replicas of the plan, by hash where there is one (the caller).
//   3. Open: the shards that are needed, as one TensorSource.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compare/tensor_source.h"
#include "compare/topology.h"
#include "core/status.h"
#include "io/records.h"
#include "settings/dims.h"

namespace tdump::compare {

struct Shard {
  int32_t rank = 0;
  DType dtype;
  Shape shape;  // units
};
Shard ShardOf(int32_t rank, const io::Record& record);

// Shards that must be equal.
struct ReplicaGroup {
  size_t first = 0;            // the one that is used
  std::vector<size_t> others;  // indices into the shards
};

struct UnshardPlan {
  DType dtype;
  Shape shape;                         // of the whole
  std::string how;                     // "concatenated on tp, replicated on 2 ranks"
  std::vector<ReplicaGroup> replicas;  // of more than one shard
  Dims dims;                           // as planned: without ellipsis
  // One for each summand of a partial sum, else one: its boxes. `source` indexes the member shards.
  std::vector<std::vector<Box>> summands;
  std::vector<uint32_t> partial_places;  // of dims.partial, axis by axis
  uint64_t divisor = 1;                  // of the sum: places on the axes of a mean
  Shape split_shape;                     // of the boxes: fused dimensions taken apart
  std::vector<size_t> shards;            // that are read: indices into what was given

  // The whole is shards[0] just as it lies: that record, hash included, stands for it.
  bool is_one_shard = false;
};

// `sizes`: what the dims call by name, and sizes of dimensions: {"b": {2}}.
// An axis that no dim names holds replicas; but stages of a pipeline (axis pp) that hold one name
// are an error unless the dims say replicated[pp]: layers are then numbered within their stage.
// `sp` is the axis tp where the job has none of that name. A usual axis that the job lacks (tp, cp,
// sp, ep, etp, dp, fsdp, pp, vpp) has one place. Of an unknown topology the ranks are the places of
// the one axis that the dims name.
// Errors (kInvalidArgument), of this tensor only: a shard is missing, contradicts the others
// (shape, dtype), or the dims do not fit.
Result<UnshardPlan> PlanUnshard(const std::vector<Shard>& shards, const Dims& dims,
                                const Topology& topology, const SizeTable& sizes = {});

using OpenShard = std::function<Result<Source>(size_t shard)>;
Result<Source> OpenPlan(const UnshardPlan& plan, const OpenShard& open);

// Which shards hold unit `unit` of the whole (row-major, as in the plan's shape): of a partial sum
// one for each summand. Replicas of these hold it as well. Precondition: inside the whole.
std::vector<size_t> ShardsAt(const UnshardPlan& plan, uint64_t unit);

}  // namespace tdump::compare
