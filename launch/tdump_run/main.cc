// tdump-run: checks the configuration, sets up the environment and becomes the job.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "coordinator/process_facts.h"
#include "io/address.h"
#include "launch/tdump_run/commands.h"
#include "launch/tdump_run/estimate.h"
#include "launch/tdump_run/explain.h"
#include "launch/tdump_run/installation.h"
#include "launch/tdump_run/options.h"
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

// Looks at the run in `run` and says what `config` would write. Exit status: 0, or 2.
int PrintEstimate(const filters::Config& config, const std::string& run) {
  const auto ranks = EstimateFromRun(Env::Posix(), run, config);
  if (!ranks.ok()) return Fail(ranks.status().message(), 2);
  std::fputs(EstimateText(*ranks, config, CopyBandwidth()).c_str(), stdout);
  return 0;
}

int EstimateFrom(const Options& options, const Installation& installation) {
  const auto settings = SettingsFor(options, installation, coordinator::CurrentEnvironment());
  if (!settings.ok()) return FailOnce(settings.status().message() + "\n", 2);
  const auto run = io::ResolveRun(Env::Posix(), options.from);
  if (!run.ok()) return Fail(run.status().message(), 2);
  return PrintEstimate(settings->config, run->path);
}

// The job as it is, with hashes of two steps written to a directory that is removed again.
int Estimate(const Options& options, const Installation& installation) {
  const auto environment = coordinator::CurrentEnvironment();
  const auto settings = SettingsFor(options, installation, environment);
  if (!settings.ok()) return FailOnce(settings.status().message() + "\n", kFailedBeforeStart);
  std::error_code error;
  std::string directory =
      (std::filesystem::temp_directory_path(error) / "tdump-estimate-XXXXXX").string();
  if (::mkdtemp(directory.data()) == nullptr)
    return Fail("cannot make " + directory + ": " + std::strerror(errno), kFailedBeforeStart);
  const Options probe = ProbeOptions(options, settings->config, directory + "/run");
  auto job = PrepareJob(probe, installation, environment);
  std::string why;
  int status = kFailedBeforeStart;
  if (!job.ok())
    why = job.status().message();
  else
    status = RunJob(options.command, job->environment, &why);
  if (why.empty() && !std::filesystem::exists(directory + "/run", error)) {
    const int nothing = Fail(
        "the command ended without running an operator that is recorded, so there is nothing to "
        "estimate from; expected a job that runs at least one selected step",
        2);
    if (status == 0) status = nothing;
  } else if (why.empty()) {
    const int printed = PrintEstimate(settings->config, directory + "/run");
    if (status == 0) status = printed;
  }
  std::filesystem::remove_all(directory, error);
  return why.empty() ? status : Fail(why, status);
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
  if (options.estimate && !options.from.empty()) return EstimateFrom(options, *installation);
  if (options.estimate) return Estimate(options, *installation);
  return Run(options, *installation);
}

}  // namespace
}  // namespace tdump::launch

int main(int argc, char** argv) { return tdump::launch::Main(argc, argv); }
