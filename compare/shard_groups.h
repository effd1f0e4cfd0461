// ShardGroups: the shards of a tensor by their ranks' places on the axes that share it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compare/topology.h"
#include "core/status.h"
#include "settings/dims.h"

namespace tdump::compare {

// An axis that the dims name: its index in the topology, or none (it has one place).
struct UsedAxis {
  std::string name;
  std::optional<size_t> index;
  uint32_t size = 1;
};
// Errors: an axis that the run does not have, or under two names.
Result<std::vector<UsedAxis>> FindAxes(const std::vector<std::string>& names,
                                       const Topology& topology);

struct ShardGroups {
  // By place on the used axes, the last fastest: indices of shards that should be equal copies, by
  // rank; none is empty.
  std::vector<std::vector<size_t>> groups;
  // Of all groups: how many copies there are.
  size_t copies = 1;
};

// `ranks`: of each shard. Errors, which name ranks: a rank without place or twice, a place without
// a shard, copies on some ranks only, stages of a pipeline that hold one name.
Result<ShardGroups> GroupShards(const std::vector<int32_t>& ranks,
                                const std::vector<UsedAxis>& used, const Dims& dims,
                                const Topology& topology);

}  // namespace tdump::compare
