// How a tool becomes one of the processes of an MPI program. Without --mpi no MPI library is
// opened.
#pragma once

#include <memory>

#include "compare/team.h"
#include "core/status.h"

namespace tdump::tools {

// Opens libtdump_mpi.so beside the tool's libraries and initialises MPI. Error: what is missing.
Result<std::unique_ptr<compare::Team>> OpenMpiTeam();

}  // namespace tdump::tools
