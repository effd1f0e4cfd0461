#include "coordinator/job_key.h"

#include <cstdlib>

namespace tdump::coordinator {
namespace {

std::string Text(const ProcessId& process) {
  return std::to_string(process.pid) + ":" + std::to_string(process.start);
}

// "3012231168.0;tcp4://10.0.0.1:40003" -> "3012231168": the part that is the same on every node.
std::string ServerNamespace(const Environment& environment) {
  for (const char* name :
       {"PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3", "PMIX_SERVER_URI2"}) {
    const std::string uri = ValueOf(environment, name);
    if (!uri.empty()) return uri.substr(0, uri.find_first_of(".;"));
  }
  return {};
}

std::string Restart(const Environment& environment) {
  const std::string count = ValueOf(environment, "TORCHELASTIC_RESTART_COUNT");
  return count.empty() ? std::string() : " restart " + count;
}

JobKey OpenMpi(const Environment& environment, const std::string& transports) {
  std::string label = ValueOf(environment, "SLURM_JOB_ID");
  if (label.empty()) label = ValueOf(environment, "PMIX_NAMESPACE");
  if (label.empty()) label = transports.substr(0, 8);
  return {"openmpi " + transports, label};
}

JobKey Slurm(const Environment& environment, const std::string& step) {
  const std::string label = ValueOf(environment, "SLURM_JOB_ID") + "." + step;
  std::string key = "slurm " + label;
  const std::string restarts = ValueOf(environment, "SLURM_RESTART_COUNT");
  if (!restarts.empty()) key += "." + restarts;
  return {key, label};
}

JobKey Torchrun(const Environment& environment, const ProcessFacts& facts,
                std::vector<std::string>* warnings) {
  const std::string id = ValueOf(environment, "TORCHELASTIC_RUN_ID");
  if (id != "none") return {"torchrun " + id, id};
  const int64_t world = std::atoll(ValueOf(environment, "WORLD_SIZE").c_str());
  const int64_t local_world = std::atoll(ValueOf(environment, "LOCAL_WORLD_SIZE").c_str());
  const std::string master =
      ValueOf(environment, "MASTER_ADDR") + ":" + ValueOf(environment, "MASTER_PORT");
  if (world > local_world && local_world > 0) {
    warnings->push_back(
        "torchrun on several nodes without --rdzv-id: the job cannot be told from another with "
        "master " +
        master + "; name it with TDUMP_JOB");
    return {"torchrun none " + master, ValueOf(environment, "MASTER_PORT")};
  }
  const ProcessId agent = facts.agent.pid != 0 ? facts.agent : facts.parent;
  return {"torchrun none " + facts.host + " " + Text(agent),
          "torchrun-" + std::to_string(agent.pid)};
}

JobKey WithoutLauncher(const Environment& environment, const ProcessFacts& facts, int32_t world) {
  const std::string launch = ValueOf(environment, "TDUMP_LAUNCH");
  // Members of one process group know each other by what started them. An
  // interactive shell starts many jobs.
  const bool spawned = world > 1 && !facts.parent_is_interactive_shell;
  if (!launch.empty()) return {"tdump-run " + launch, launch};
  if (spawned)
    return {"parent " + facts.host + " " + Text(facts.parent),
            "pid" + std::to_string(facts.parent.pid)};
  return {"process " + facts.host + " " + Text(facts.self), ""};
}

JobKey Choose(const Environment& environment, const ProcessFacts& facts, int32_t world,
              std::vector<std::string>* warnings) {
  const std::string named = ValueOf(environment, "TDUMP_JOB");
  if (!named.empty()) return {"job " + named, named};
  const std::string transports = ValueOf(environment, "OMPI_MCA_orte_precondition_transports");
  if (!transports.empty() && !ValueOf(environment, "OMPI_COMM_WORLD_RANK").empty()) {
    return OpenMpi(environment, transports);
  }
  const std::string step = ValueOf(environment, "SLURM_STEP_ID").empty()
                               ? ValueOf(environment, "SLURM_STEPID")
                               : ValueOf(environment, "SLURM_STEP_ID");
  if (!step.empty() && !ValueOf(environment, "SLURM_JOB_ID").empty())
    return Slurm(environment, step);
  const std::string nspace = ValueOf(environment, "PMIX_NAMESPACE");
  if (!nspace.empty())
    return {"pmix " + nspace + " server " + ServerNamespace(environment), nspace};
  if (!ValueOf(environment, "TORCHELASTIC_RUN_ID").empty())
    return Torchrun(environment, facts, warnings);
  return WithoutLauncher(environment, facts, world);
}

}  // namespace

JobKey FindJobKey(const Environment& environment, const ProcessFacts& facts, int32_t world,
                  std::vector<std::string>* warnings) {
  JobKey job = Choose(environment, facts, world, warnings);
  job.key += Restart(environment);
  return job;
}

}  // namespace tdump::coordinator
