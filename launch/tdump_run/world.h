// How many ranks the job will have, as far as that can be known before it starts.
#pragma once

#include <string>
#include <vector>

#include "launch/tdump_run/job_environment.h"

namespace tdump::launch {

// The launcher's number where each of its processes becomes one rank. 0, not known: no launcher; or
// `command` names another one that multiplies them (torchrun, accelerate, ...); or Slurm started
// one task per node, as it does for such launchers hidden in a script.
int LauncherWorld(const std::vector<std::string>& command, const Environment& present);

// The same; and the number that torchrun will make, where `command` says it.
int KnownWorld(const std::vector<std::string>& command, const Environment& present);

}  // namespace tdump::launch
