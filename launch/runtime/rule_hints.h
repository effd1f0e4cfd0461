// What a rule that matched nothing comes near to, by what the process has called and registered:
// modules that it would take if they were leaves, and classes like those that it names.
#pragma once

#include <string>
#include <vector>

#include "core/operator_table.h"
#include "filters/compiled_plan.h"

namespace tdump::launch {

// At most one sentence a rule; none of `level: off`. At the end of the job, not before.
std::vector<std::string> HintsOfUnmatched(const filters::CompiledPlan& plan,
                                          const OperatorTable& operators);

}  // namespace tdump::launch
