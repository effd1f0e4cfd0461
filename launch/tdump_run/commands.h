// What tdump-run does besides replacing itself by the job.
#pragma once

#include <string>

#include "core/status.h"
#include "launch/config/effective_config.h"
#include "launch/tdump_run/installation.h"
#include "launch/tdump_run/job_environment.h"
#include "launch/tdump_run/options.h"

namespace tdump::launch {

struct PreparedJob {
  EffectiveConfig settings;
  EnvironmentChanges environment;
};

// Works out and validates the settings, and what the job's environment gets.
Result<PreparedJob> PrepareJob(const Options& options, const Installation& installation,
                               const Environment& present);
std::string DescribeJob(const PreparedJob& job);

// Each prints its answer and returns the exit status.
int PrintRecipes(const Installation& installation);
int CheckConfig(const Options& options, const Installation& installation);
int ExplainOperator(const Options& options, const Installation& installation);

}  // namespace tdump::launch
