// Whether a run was asked to be whole.
#pragma once

#include <string>

namespace tdump::tools {

// 'strict: true' in the configuration that the job ran with. False where the run holds none.
bool IsStrict(const std::string& run);

}  // namespace tdump::tools
