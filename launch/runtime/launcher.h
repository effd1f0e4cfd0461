// Who this process is, asked at the two moments that matter: when tdump is loaded (is it for this
// process at all, which rank does the launcher say) and when it activates.
#pragma once

#include <string>
#include <vector>

#include "core/clock.h"
#include "core/identity.h"

namespace tdump::launch {

// Asked for by the environment, not switched off, and not a child of a
// job started with --no-children.
bool WantedInThisProcess();
// What the launcher's variables say; rank 0 of 1 without a launcher.
Identity IdentityOfLauncher();
// The same with the job's key and label: what is known before MPI is asked.
Identity IdentityBeforeMpi();
// One process of the job speaks before ranks are certain: rank 0 by the launcher's variables.
bool SpeaksForTheJob();

struct RankDecision {
  bool active = false;
  bool may_join = false;  // not a rank now; becomes one by joining a process group or MPI
  Identity identity;
  int nodes = 0;  // 0: not known
  int local_ranks = 1;
  std::vector<std::string> warnings;
};

// `forked`: this process was forked from one with tdump and has not replaced its program.
RankDecision DecideRank(const Boundary& boundary, bool forked);
// A worker process of torch's DataLoader.
bool IsDataLoaderWorker();
// Marks the environment, so that children know.
void MarkOwner();

}  // namespace tdump::launch
