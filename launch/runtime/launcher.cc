#include "launch/runtime/launcher.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "coordinator/identity.h"
#include "coordinator/ownership.h"
#include "coordinator/process_facts.h"
#include "launch/runtime/owner_trace.h"

namespace tdump::launch {
namespace {

int Number(const Environment& environment, const char* name) {
  return std::atoi(ValueOf(environment, name).c_str());
}

// Ranks on this node, as the launcher says; 1 when it does not.
int LocalRanks(const Environment& environment) {
  for (const char* name : {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                           "SLURM_NTASKS_PER_NODE"}) {
    if (const int ranks = Number(environment, name); ranks > 0) return ranks;
  }
  return 1;
}

int Nodes(const Environment& environment, int world, int local_ranks) {
  if (world <= local_ranks) return 1;
  if (const int nodes = Number(environment, "SLURM_STEP_NUM_NODES"); nodes > 0) return nodes;
  return Number(environment, "GROUP_WORLD_SIZE");
}

}  // namespace

bool WantedInThisProcess() {
  const Environment environment = coordinator::CurrentEnvironment();
  const std::string disable = ValueOf(environment, "TDUMP_DISABLE");
  if (!disable.empty() && disable != "0") return false;
  if (ValueOf(environment, "TDUMP_CHILDREN") == "0" &&
      Number(environment, "TDUMP_LAUNCHED") != ::getpid())
    return false;
  return !ValueOf(environment, "TDUMP_EFFECTIVE").empty() ||
         !ValueOf(environment, "TDUMP_CONFIG").empty() ||
         !ValueOf(environment, "TDUMP_DIR").empty();
}

Identity IdentityOfLauncher() {
  std::vector<std::string> ignored;
  const coordinator::LauncherRank found =
      coordinator::RankFromEnvironment(coordinator::CurrentEnvironment(), &ignored);
  Identity identity;
  identity.rank = found.rank;
  identity.world = found.world;
  identity.local_rank = found.local_rank;
  return identity;
}

Identity IdentityBeforeMpi() {
  return coordinator::DetectIdentity(coordinator::CurrentEnvironment(), coordinator::CurrentFacts(),
                                     {})
      .identity;
}

bool SpeaksForTheJob() { return IdentityOfLauncher().rank == 0; }

// torch names the main thread of one before it runs anything in it.
bool IsDataLoaderWorker() {
  char name[16] = "";
  return ::prctl(PR_GET_NAME, name) == 0 && std::strcmp(name, "pt_data_worker") == 0;
}

RankDecision DecideRank(const Boundary& boundary, bool forked) {
  const bool joins =
      boundary.kind == BoundaryKind::kProcessGroup || boundary.kind == BoundaryKind::kMpiInit;
  RankDecision decision;
  decision.may_join = true;
  if (!joins && (forked || IsDataLoaderWorker())) return decision;
  const Environment environment = coordinator::CurrentEnvironment();
  const coordinator::ProcessFacts facts = coordinator::CurrentFacts();
  const coordinator::ActivationDecision ownership =
      coordinator::DecideActivation(environment, facts.self, boundary.kind, &coordinator::IsAlive);
  decision.active = ownership.kind == coordinator::ActivationDecision::Kind::kActive;
  decision.may_join = ownership.kind != coordinator::ActivationDecision::Kind::kOff;
  if (decision.active && !joins && environment.count(coordinator::kOwnerVariable) == 0 &&
      TracedAncestor() != 0) {
    decision.active = false;
  }
  if (!decision.active) return decision;
  coordinator::DetectedIdentity detected =
      coordinator::DetectIdentity(environment, facts, coordinator::HooksFrom(boundary));
  decision.identity = std::move(detected.identity);
  decision.warnings = std::move(detected.warnings);
  decision.local_ranks = LocalRanks(environment);
  decision.nodes = Nodes(environment, decision.identity.world, decision.local_ranks);
  return decision;
}

void MarkOwner() {
  const coordinator::ProcessFacts facts = coordinator::CurrentFacts();
  const std::string mark = coordinator::OwnerMark(coordinator::CurrentEnvironment(), facts.self);
  ::setenv(coordinator::kOwnerVariable, mark.c_str(), 1);
  LeaveOwnerTrace();
}

}  // namespace tdump::launch
