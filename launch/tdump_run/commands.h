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

// The effective configuration of a job that is started with `options` in the environment `present`.
Result<EffectiveConfig> SettingsFor(const Options& options, const Installation& installation,
                                    const Environment& present);

// Works out and validates the settings, and what the job's environment gets.
Result<PreparedJob> PrepareJob(const Options& options, const Installation& installation,
                               const Environment& present);
// The configuration as YAML, then the environment as comments.
std::string DescribeJob(const PreparedJob& job);

// A line each: name, and the first comment of the file.
std::string ListRecipes(const Installation& installation);

}  // namespace tdump::launch
