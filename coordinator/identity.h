// DetectIdentity: which rank of how many this process is, and of which job. Sources, innermost
// first: what a process group or MPI said, then the environment of torchrun (RANK), Open MPI and
// PMIx, PMI, Slurm; none: rank 0 of 1. A launcher that merely started another launcher is no
// contradiction. A family whose values are not all sound is passed over with a warning; nothing is
// ever read as 0 that is not "0".
#pragma once

#include <string>
#include <vector>

#include "coordinator/process_facts.h"
#include "core/clock.h"
#include "core/identity.h"

namespace tdump::coordinator {

// Rank and world as a run-time library says them; -1 = it did not.
struct LibraryRank {
  int32_t rank = -1;
  int32_t world = -1;
};

struct IdentityHooks {
  LibraryRank process_group;
  LibraryRank mpi;
};
IdentityHooks HooksFrom(const Boundary& boundary);

struct DetectedIdentity {
  Identity identity;
  std::vector<std::string> warnings;  // one line each
};

DetectedIdentity DetectIdentity(const Environment& environment, const ProcessFacts& facts,
                                const IdentityHooks& hooks);

// The rank that the launchers' variables give, without libraries; for tdump-run and for activation.
struct LauncherRank {
  int32_t rank = 0;
  int32_t world = 1;
  int32_t local_rank = 0;
  std::string source = "none";  // "torchrun", "PMIx", "PMI", "Slurm", "none"
};
LauncherRank RankFromEnvironment(const Environment& environment,
                                 std::vector<std::string>* warnings);

}  // namespace tdump::coordinator
