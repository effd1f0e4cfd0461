// The job key: equal on all ranks of a job, different for every job (docs/design.md, "Files").
// First that applies:
//   TDUMP_JOB                  what the user says
//   Open MPI's transport key   random for each mpirun; before Slurm's key, which all mpirun of one
//                              allocation share
//   Slurm job.step             and the restart count of the job
//   PMIx namespace + server    other PMIx launchers
//   torchrun's run id          with id "none" the agent's pid and start, on one node
//   TDUMP_LAUNCH               start time and pid, set by tdump-run: nothing else names the job
//   parent process             of members of a process group that no launcher started (mp.spawn)
//   this process
// torchrun's restart count is part of every key: an elastic restart is
// another job in the same run directory.
#pragma once

#include <string>
#include <vector>

#include "coordinator/process_facts.h"

namespace tdump::coordinator {

struct JobKey {
  std::string key;
  // {job} in output.dir, equal on all ranks. Empty: nothing names the job, use the start time.
  std::string label;
};

JobKey FindJobKey(const Environment& environment, const ProcessFacts& facts, int32_t world,
                  std::vector<std::string>* warnings);

}  // namespace tdump::coordinator
