// tdump-run --estimate as a command; what it works out is in launch/tdump_run/estimate.h.
#pragma once

#include "launch/tdump_run/installation.h"
#include "launch/tdump_run/options.h"

namespace tdump::launch {

// Both print, and return the exit status of tdump-run.
int EstimateOfRun(const Options& options, const Installation& installation);  // --from
// Runs the job, then prints. Of the ranks of one job, one prints for all. Exit status: the job's
// when that is not 0, else 0 or 2.
int EstimateOfJob(const Options& options, const Installation& installation);

// Below another tdump-run --estimate: becomes the job, which writes what that one looks at. Returns
// when it failed.
int JoinEstimate(const Options& options, const Installation& installation,
                 const std::string& directory);

}  // namespace tdump::launch
