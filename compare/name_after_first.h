// Gradients that came through a forward that a checkpoint computed anew, before leftovers are
// paired: each stands for that of the first forward, which is what a job without checkpoints has.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compare/job_step.h"
#include "compare/leftovers.h"
#include "compare/step_view.h"

namespace tdump::compare {

// Gives such leftovers the key of the first one, where it can be told which that is and no other
// has it. `ids`, `groups`: the leftovers' records.
void NameAfterFirst(const StepView& view, std::span<const uint64_t> ids,
                    std::vector<Leftover>* leftovers);
void NameAfterFirst(const JobStep& step, std::span<const Group* const> groups,
                    std::vector<Leftover>* leftovers);

}  // namespace tdump::compare
