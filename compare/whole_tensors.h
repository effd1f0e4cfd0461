// From shards and a layout to tensors of a JobStep.
#pragma once

#include <string>

#include "compare/infer_layout.h"
#include "compare/job_step.h"
#include "compare/load_shards.h"

namespace tdump::compare {

// With a copy for each replica that should be equal to the one that is used and is not.
WholeTensor TensorOf(const LoadedShards& shards, const LayoutCandidate& layout, std::string how);

// One that cannot be put together, for `status`.
WholeTensor FailedTensor(const LoadedShards& shards, const Status& status);

}  // namespace tdump::compare
