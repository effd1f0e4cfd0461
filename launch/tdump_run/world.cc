#include "launch/tdump_run/world.h"

#include <algorithm>
#include <string_view>

#include "coordinator/identity.h"
#include "launch/tdump_run/torchrun.h"

namespace tdump::launch {
namespace {

bool NamesLauncher(const std::string& word) {
  static constexpr std::string_view kLaunchers[] = {"torchrun",
                                                    "torch.distributed.run",
                                                    "torch.distributed.launch",
                                                    "accelerate",
                                                    "deepspeed",
                                                    "mpirun",
                                                    "mpiexec",
                                                    "srun",
                                                    "horovodrun",
                                                    "colossalai"};
  return std::any_of(std::begin(kLaunchers), std::end(kLaunchers), [&](std::string_view launcher) {
    return word.find(launcher) != std::string::npos;
  });
}

bool OneTaskPerNode(const Environment& present) {
  const std::string tasks = ValueOf(present, "SLURM_NTASKS");
  return !tasks.empty() && tasks == ValueOf(present, "SLURM_STEP_NUM_NODES");
}

}  // namespace

int LauncherWorld(const std::vector<std::string>& command, const Environment& present) {
  std::vector<std::string> ignored;
  const coordinator::LauncherRank rank = coordinator::RankFromEnvironment(present, &ignored);
  if (rank.source == "none") return 0;
  if (std::any_of(command.begin(), command.end(), NamesLauncher)) return 0;
  if (rank.source == "Slurm" && OneTaskPerNode(present)) return 0;
  return rank.world;
}

int KnownWorld(const std::vector<std::string>& command, const Environment& present) {
  const int made = RanksOfTorchrun(command, present);
  return made != 0 ? made : LauncherWorld(command, present);
}

}  // namespace tdump::launch
