// Of a name without a record on the ranks and steps that were asked for: where it has some, as a
// rule of the capture recorded it on other ranks or in other steps.
#pragma once

#include <string>

#include "tools/record_filter.h"

namespace tdump::tools {

// "'fc' was not recorded on rank 1 in step 0, but on rank 0"; "" where it is recorded nowhere, or
// on none of the ranks and steps that were looked at: some of the same steps, of the same ranks, of
// all others.
std::string ElsewhereText(const LoadedRun& run, const RecordFilter& filter);

}  // namespace tdump::tools
