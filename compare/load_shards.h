// LoadShards: what the ranks of one side hold under one name, with everything that is said of how
// they share it.
#pragma once

#include <string>
#include <vector>

#include "compare/job_step.h"
#include "compare/pairing.h"
#include "compare/record_numbers.h"
#include "compare/resolve_layout.h"
#include "core/status.h"

namespace tdump::compare {

// "Tensors of these names have these dims", for the shards of one side or of both.
struct DimsRule {
  char side = 0;  // 'A', 'B'; 0: both
  NameFilter matches;
  Dims dims;
};

struct LoadedShards {
  ShardSet set;
  std::vector<MemberData> data;         // of set.refs; tile digests left out
  std::string shared_name, shared_key;  // NameOf and text of the group's key
  Status status;                        // a record, or its values, that could not be read
};

// Dims by precedence: the first of `rules` that matches the captured or the shared name or key
// ("mlp.fc1@output#0") and has as many dimensions; what the record says (its dims, else its
// placements); the map's. Records that they name are those of `numbers`, of the same step.
LoadedShards LoadShards(const JobStep& step, char side, const Group& group,
                        const std::vector<DimsRule>& rules, RecordNumbers* numbers);

}  // namespace tdump::compare
