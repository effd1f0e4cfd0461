// tdump-run --explain NAME: the answer as text.
#pragma once

#include <string>

#include "core/status.h"
#include "launch/config/effective_config.h"
#include "launch/tdump_run/options.h"

namespace tdump::launch {

// NAME is a module's path ("." is the root), path/name of a tap, or path/aten::op. Error: with
// --from a name that the run does not know, with those that come near.
Result<std::string> ExplainOperator(const EffectiveConfig& settings, const Options& options);

}  // namespace tdump::launch
