// The command line of torchrun, as far as it says how many ranks there will be.
#pragma once

#include <string>
#include <vector>

#include "core/environment.h"

namespace tdump::launch {

// Processes a node times nodes, where `command` is torchrun (torch.distributed.run or .launch,
// under its own name or by Python) and says both: by its options in any spelling of theirs, or by
// PET_NPROC_PER_NODE and PET_NNODES. 0: another command, a number that only torchrun finds out
// (gpu, auto, 1:4), or an option that is not known here, so that it is not certain where they end.
int RanksOfTorchrun(const std::vector<std::string>& command, const Environment& present);

}  // namespace tdump::launch
