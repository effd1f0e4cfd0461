#include "launch/tdump_run/estimate_command.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "coordinator/identity.h"
#include "coordinator/process_facts.h"
#include "core/text.h"
#include "filters/parse_config.h"
#include "io/address.h"
#include "io/node_env.h"
#include "launch/config/limits.h"
#include "launch/tdump_run/commands.h"
#include "launch/tdump_run/estimate.h"
#include "launch/tdump_run/estimate_notes.h"
#include "launch/tdump_run/probe_directory.h"
#include "launch/tdump_run/start_job.h"
#include "launch/tdump_run/tell_once.h"
#include "launch/tdump_run/world.h"

namespace tdump::launch {
namespace {

int Fail(const std::string& message, int status) {
  return FailOnce(fmt::format("tdump-run: {}\n", message), status);
}

// How a job ended: "status 134 (Aborted)".
std::string EndText(int status) {
  const int signal = status - 128;
  if (signal <= 0 || signal >= NSIG) return fmt::format("status {}", status);
  return fmt::format("status {} ({})", status, ::strsignal(signal));
}

constexpr std::string_view kWhatToDo =
    "run it without --estimate to see whether it fails by itself; a run that is there can be "
    "estimated from with --estimate --from RUN";

// Nothing was recorded. `status`: of the job.
std::string WhyNothing(int status) {
  if (status != 0)
    return fmt::format(
        "the job ended with {} before tdump had written a selected step, so there is nothing to "
        "estimate from; {}",
        EndText(status), kWhatToDo);
  return "the command ended without running an operator that is recorded, so there is nothing to "
         "estimate from; expected a job that runs at least one selected step";
}

// What the estimate is worth that stands on a job that failed.
std::string NoteOfFailure(const std::vector<RankEstimate>& ranks, int status) {
  if (status == 0) return "";
  std::string cut;
  for (const RankEstimate& rank : ranks) {
    if (rank.open_at_end)
      cut = fmt::format("; step {}, its last one, may not have been a whole one", rank.last_step);
  }
  return fmt::format("  note       the job ended with {}{}; {}\n", EndText(status), cut, kWhatToDo);
}

std::optional<uint64_t> FreeBytes(const std::string& folder) {
  const auto found = Env::Posix()->FreeBytes(NearestFolder(folder));
  return found.ok() ? std::optional(*found) : std::nullopt;
}

// What was written for the estimate did not come to the disk. `status`: of the job.
std::string ProbeFull(const std::vector<RankEstimate>& ranks, const io::RunRef& run, int status) {
  const std::string folder = std::filesystem::path(run.path).parent_path().parent_path().string();
  const std::string end =
      status == 0 ? "" : fmt::format("; the job ended with {}", EndText(status));
  return WhyNoRoom(ranks, folder, FreeBytes(folder)) + end;
}

// Looks at the run in `run` and says what `config` would write. `job`: the status of the job that
// wrote it for this; none: a run that was there. `file_of_rates`: --rates, or "". Exit status: 0,
// or 2.
int PrintEstimate(const filters::Config& config, const io::RunRef& run, std::optional<int> job,
                  const std::string& file_of_rates) {
  const auto ranks = EstimateFromRun(io::RunEnv(), run, config);
  const int status_of_job = job.value_or(0);
  if (!ranks.ok()) {
    const bool nothing = ranks.status().code() == StatusCode::kNotFound && job;
    if (!nothing) return Fail(ranks.status().message(), 2);
    return Fail(
        status_of_job != 0 ? WhyNothing(status_of_job) : WhyNoPass(io::RunEnv(), run, config), 2);
  }
  if (job && LostToTheDisk(*ranks) != 0) return Fail(ProbeFull(*ranks, run, status_of_job), 2);
  const auto rates = RatesFor(file_of_rates, config.dir);
  if (!rates.ok()) return Fail(rates.status().message(), 2);
  const uint64_t arena =
      ArenaBytes(Env::Posix(), config.host_bytes, static_cast<int>(ranks->size()));
  // A reader that leaves is no trouble, and must not end this process before it has cleared up.
  ::signal(SIGPIPE, SIG_IGN);
  const std::string text = EstimateText(*ranks, config, *rates, FreeBytes(config.dir), arena) +
                           NotesOfLosses(*ranks, config, !job) +
                           NoteOfFailure(*ranks, status_of_job);
  std::fputs(text.c_str(), stdout);
  if (std::fflush(stdout) == 0 || errno == EPIPE) return 0;
  return Fail(fmt::format("cannot write the estimate to standard output: {}", std::strerror(errno)),
              2);
}

// What the ranks below asked for; else what this tdump-run was asked for.
filters::Config ConfigOfJob(const std::string& directory, const filters::Config& own) {
  const auto asked = ReadAsked(directory);
  if (!asked) return own;
  auto config = filters::ParseConfig(asked->yaml, "configuration of the job");
  if (!config.ok()) return own;
  if (asked->differs) {
    std::fputs(
        "tdump-run: the ranks have different configurations; this is by that of the lowest rank\n",
        stderr);
  }
  return std::move(config).value();
}

// After the job has ended, with `status`.
int Conclude(const ProbeDirectory& probe, const filters::Config& config,
             const std::string& file_of_rates, int status) {
  if (probe.shared() && status != 0) {
    // The launcher ends the other ranks when this one has gone.
    probe.Remove();
    return Fail(fmt::format("the job of rank {} ended with {}, so no estimate is made; {}",
                            probe.rank(), EndText(status), kWhatToDo),
                status);
  }
  if (!probe.Speaks()) return status;
  int printed = 2;
  std::error_code error;
  if (std::filesystem::exists(probe.run(), error)) {
    io::RunRef run;
    run.path = probe.run();
    printed = PrintEstimate(ConfigOfJob(probe.path(), config), run, status, file_of_rates);
  } else if (status != kNotFound && status != kNotExecutable) {  // those were told by the child
    printed = Fail(WhyNothing(status), 2);
  }
  probe.Remove();
  return status != 0 ? status : printed;
}

}  // namespace

int EstimateOfRun(const Options& options, const Installation& installation) {
  const auto settings = SettingsFor(options, installation, coordinator::CurrentEnvironment());
  if (!settings.ok()) return FailOnce(settings.status().message() + "\n", 2);
  const auto run = io::ResolveRun(io::RunEnv(), options.from);
  if (!run.ok()) return Fail(run.status().message(), 2);
  return PrintEstimate(settings->config, *run, std::nullopt, options.rates);
}

int EstimateOfJob(const Options& options, const Installation& installation) {
  const auto environment = coordinator::CurrentEnvironment();
  const auto settings = SettingsFor(options, installation, environment);
  if (!settings.ok()) return FailOnce(settings.status().message() + "\n", kFailedBeforeStart);
  if (const Status rates = CheckRates(options.rates); !rates.ok())
    return Fail(rates.message(), kFailedBeforeStart);
  const auto probe = ProbeDirectory::Make(LauncherWorld(options.command, environment), environment);
  if (!probe.ok()) return Fail(probe.status().message(), kFailedBeforeStart);
  auto job =
      PrepareJob(ProbeOptions(options, settings->config, probe->run()), installation, environment);
  std::string why = job.ok() ? "" : job.status().message();
  int status = kFailedBeforeStart;
  bool interrupted = false;
  if (job.ok()) {
    job->environment.emplace_back(kEstimateVariable, probe->path());
    status = RunJob(options.command, job->environment, &why, &interrupted);
  }
  if (why.empty() && !interrupted) return Conclude(*probe, settings->config, options.rates, status);
  probe->Remove();
  return why.empty() ? status : Fail(why, status);
}

int JoinEstimate(const Options& options, const Installation& installation,
                 const std::string& directory) {
  const auto environment = coordinator::CurrentEnvironment();
  const auto settings = SettingsFor(options, installation, environment);
  if (!settings.ok()) return FailOnce(settings.status().message() + "\n", kFailedBeforeStart);
  std::vector<std::string> ignored;
  const int rank = coordinator::RankFromEnvironment(environment, &ignored).rank;
  if (const Status left = LeaveAsked(directory, rank, settings->yaml); !left.ok())
    return Fail(left.message(), kFailedBeforeStart);
  const auto job = PrepareJob(ProbeOptions(options, settings->config, directory + "/run"),
                              installation, environment);
  if (!job.ok()) return Fail(job.status().message(), kFailedBeforeStart);
  std::string why;
  const int status = ExecJob(options.command, job->environment, &why);
  return Fail(why, status);
}

}  // namespace tdump::launch
