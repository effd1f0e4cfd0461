#include "launch/tdump_run/commands.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include "core/env.h"
#include "filters/parse_config.h"

namespace tdump::launch {

Result<PreparedJob> PrepareJob(const Options& options, const Installation& installation,
                               const Environment& present) {
  PreparedJob job;
  if (!options.config.empty()) {
    TDUMP_ASSIGN_OR_RETURN(job.settings.yaml, ReadFile(Env::Posix(), options.config, 1 << 20));
  }
  if (job.settings.yaml.empty()) job.settings.yaml = "version: 1\n";
  TDUMP_ASSIGN_OR_RETURN(job.settings.config,
                         filters::ParseConfig(job.settings.yaml, options.config));
  job.environment = JobEnvironment(installation, job.settings.yaml, options.children, present);
  job.environment.emplace_back("TDUMP_CONFIG", options.config);
  return job;
}

std::string DescribeJob(const PreparedJob& job) {
  std::string text = job.settings.yaml;
  for (const auto& [name, value] : job.environment) text += fmt::format("# {}={}\n", name, value);
  return text;
}

int PrintRecipes(const Installation& installation) {
  for (const std::string& name : RecipeNames(installation.recipes)) std::puts(name.c_str());
  return 0;
}

int CheckConfig(const Options& options, const Installation& installation) { return 2; }

int ExplainOperator(const Options& options, const Installation& installation) { return 2; }

}  // namespace tdump::launch
