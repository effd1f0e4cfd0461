// The environment a job is started with. Everything tdump adds is here.
//
//   TDUMP_EFFECTIVE...  the effective config (launch/config/effective_config.h)
//   TDUMP_BASE          working directory of tdump-run: relative output directories start here,
//                       wherever the job goes
//   TDUMP_LAUNCHED      pid of tdump-run, which the job keeps
//   TDUMP_LAUNCH        start time and that pid: names the job where no launcher does
//   TDUMP_ESTIMATE      with --estimate: the directory in which the run is looked at, so that a
//                       tdump-run further in writes there (launch/tdump_run/probe_directory.h)
//   TDUMP_CHILDREN      0 with --no-children
//   LD_PRELOAD          what was there, then the shim; TDUMP_LD_PRELOAD_BEFORE: what was there
//   ASAN_OPTIONS        what was there, then verify_asan_link_order=0
//   PYTHONPATH          the folder of the entry point, then what was there
//   VLLM_DISABLE_COMPILE_CACHE  1 with compile.taps, if it was not set: vLLM keeps compiled code
//                       under a name that says nothing of hooks
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/environment.h"
#include "launch/tdump_run/installation.h"

namespace tdump::launch {

using EnvironmentChanges = std::vector<std::pair<std::string, std::string>>;

void AddPrivateCache(const Environment& present, EnvironmentChanges* changes);

// `config`: the variables that hand over the configuration.
EnvironmentChanges JobEnvironment(const Installation& installation, EnvironmentChanges config,
                                  bool children, const Environment& present);

}  // namespace tdump::launch
