// From shards and a layout to tensors of a JobStep.
#pragma once

#include <string>
#include <vector>

#include "compare/infer_layout.h"
#include "compare/job_step.h"
#include "compare/load_shards.h"
#include "io/hash.h"

namespace tdump::compare {

// With a copy for each replica that should be equal to the one that is used and is not, or of which
// nothing tells whether it is.
WholeTensor TensorOf(const LoadedShards& shards, const LayoutCandidate& layout, std::string how);

// One that cannot be put together, for `status`.
WholeTensor FailedTensor(const LoadedShards& shards, const Status& status);

// Where both are joined in one way, of shards that all have a hash: gives both a hash of those, by
// which they are compared.
struct JoinedSide {
  const LoadedShards* shards = nullptr;
  const LayoutCandidate* layout = nullptr;
  WholeTensor* tensor = nullptr;
};
void HashJoined(const JoinedSide& a, const JoinedSide& b);
// Whether two layouts join shards, each of which lies at one place of both tensors.
bool AreJoinedAlike(const LayoutCandidate& a, const LayoutCandidate& b);
// Whether each shard has the same place on both sides.
bool LieAtOnePlace(const LayoutCandidate& a, const LayoutCandidate& b);
// Whether layouts make one tensor of what ranks hold: not where they take for copies what differs,
// and nobody said so, nor where nothing tells whether they are equal.
bool AreWhole(const LoadedShards& a, const LoadedShards& b, const Result<ResolvedLayouts>& layouts);
// Whether what was kept of a tensor that is put together says nothing of the whole: statistics,
// samples, of a side without values or hashes; or copies that have nothing in common.
bool IsUnjoinable(const LoadedShards& a, const LoadedShards& b, const ResolvedLayouts& layouts);
// Of the shards of a plan, in its order.
io::Hash128 JoinedHash(const std::vector<io::Hash128>& shards);

}  // namespace tdump::compare
