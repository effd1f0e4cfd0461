#include "tools/mpi_team.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>

#include "coordinator/mpi_team.h"
#include "core/beside.h"
#include "core/env.h"
#include "core/runtime.h"

namespace tdump::tools {
namespace {

class MpiProcesses : public compare::Team {
 public:
  explicit MpiProcesses(coordinator::MpiTeam* world) : world_(world) {}

  int rank() const override { return world_->rank(); }
  int size() const override { return world_->size(); }
  Status Send(std::string_view bytes) override { return world_->Send(bytes); }
  Result<std::string> Receive(int from) override { return world_->Receive(from); }
  Result<int> Largest(int value) override { return world_->Largest(value); }

 private:
  std::unique_ptr<coordinator::MpiTeam> world_;
};

// Where it lies in a build tree, and where it is installed.
constexpr std::array kPlaces = {"../lib/libtdump_mpi.so", "../lib/tdump/libtdump_mpi.so"};

Result<void*> OpenObject() {
  for (const char* place : kPlaces) {
    TDUMP_ASSIGN_OR_RETURN(const std::string path,
                           PathBeside(reinterpret_cast<const void*>(&OpenMpiTeam), place));
    if (!Env::Posix()->Stat(path).ok()) continue;
    // Its MPI opens components of its own, which look for its symbols.
    void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (handle != nullptr) return handle;
    const char* why = ::dlerror();
    return NotFound(fmt::format("--mpi: {}", why != nullptr ? why : path));
  }
  return NotFound("--mpi: this tdump was built without MPI; leave the option out");
}

}  // namespace

Result<std::unique_ptr<compare::Team>> OpenMpiTeam() {
  TDUMP_ASSIGN_OR_RETURN(void* object, OpenObject());
  const auto stamp =
      reinterpret_cast<coordinator::MpiTeamStampFn>(::dlsym(object, "tdump_mpi_team_stamp"));
  if (stamp == nullptr || stamp() != kBuildStamp)
    return Unsupported("--mpi: libtdump_mpi.so is of another build of tdump");
  const auto open = reinterpret_cast<coordinator::MpiTeamFn>(::dlsym(object, "tdump_mpi_team"));
  coordinator::MpiTeam* world = open != nullptr ? open() : nullptr;
  if (world == nullptr)
    return Unsupported("--mpi: MPI does not start, or lacks MPI_THREAD_SERIALIZED");
  return std::unique_ptr<compare::Team>(new MpiProcesses(world));
}

}  // namespace tdump::tools
