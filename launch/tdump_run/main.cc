// tdump-run: checks the configuration, sets up the environment and becomes the job.
#include <cstdio>
#include <string>

#include <fmt/format.h>

#include "coordinator/process_facts.h"
#include "launch/tdump_run/commands.h"
#include "launch/tdump_run/estimate_command.h"
#include "launch/tdump_run/explain.h"
#include "launch/tdump_run/installation.h"
#include "launch/tdump_run/options.h"
#include "launch/tdump_run/probe_directory.h"
#include "launch/tdump_run/start_job.h"
#include "launch/tdump_run/tell_once.h"

namespace tdump::launch {
namespace {

int Fail(const std::string& message, int status) {
  return FailOnce(fmt::format("tdump-run: {}\n", message), status);
}

// Mistakes stand on lines of their own, "file:line:column: ...", as editors read them.
int Check(const Options& options, const Installation& installation) {
  const auto settings = SettingsFor(options, installation, coordinator::CurrentEnvironment());
  return settings.ok() ? 0 : FailOnce(settings.status().message() + "\n", 2);
}

int Explain(const Options& options, const Installation& installation) {
  const auto settings = SettingsFor(options, installation, coordinator::CurrentEnvironment());
  if (!settings.ok()) return FailOnce(settings.status().message() + "\n", 2);
  const auto text = ExplainOperator(*settings, options);
  if (!text.ok()) return Fail(text.status().message(), 2);
  std::fputs(text->c_str(), stdout);
  return 0;
}

int Run(const Options& options, const Installation& installation) {
  auto job = PrepareJob(options, installation, coordinator::CurrentEnvironment());
  if (!job.ok()) {
    return Fail(
        fmt::format("wrong configuration, the job was not started\n{}", job.status().message()),
        kFailedBeforeStart);
  }
  if (options.print) {
    std::fputs(DescribeJob(*job).c_str(), stdout);
    return 0;
  }
  std::string error;
  const int status = ExecJob(options.command, job->environment, &error);
  return Fail(error, status);
}

int Main(int argc, char** argv) {
  const ParsedOptions parsed = ParseOptions(argc, argv);
  if (parsed.ends) {
    std::fputs(parsed.output.c_str(), stdout);
    return parsed.error.empty() ? parsed.status : Fail(parsed.error, parsed.status);
  }
  const Options& options = parsed.options;
  auto executable = OwnExecutable();
  auto installation =
      executable.ok() ? FindInstallation(*executable) : Result<Installation>(executable.status());
  if (!installation.ok()) return Fail(installation.status().message(), kFailedBeforeStart);

  if (options.recipes) {
    std::fputs(ListRecipes(*installation).c_str(), stdout);
    return 0;
  }
  if (options.check) return Check(options, *installation);
  if (!options.explain.empty()) return Explain(options, *installation);
  if (options.estimate && !options.from.empty()) return EstimateOfRun(options, *installation);
  const auto enclosing = EnclosingEstimate(coordinator::CurrentEnvironment());
  if (enclosing && options.runs()) return JoinEstimate(options, *installation, *enclosing);
  if (options.estimate) return EstimateOfJob(options, *installation);
  return Run(options, *installation);
}

}  // namespace
}  // namespace tdump::launch

int main(int argc, char** argv) { return tdump::launch::Main(argc, argv); }
