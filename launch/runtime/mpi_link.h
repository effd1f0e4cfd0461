// MpiLink: how tdump comes to a communicator of its own without a job ever hanging on it.
//
//   1. Before the job's MPI_Init: the process announces itself, a file in <run>/clock named after
//      the job and its rank in the launcher's world, with the thread level it asks for.
//   2. The real MPI_Init; it returns when all processes of the world have come to it.
//   3. After it: the first process looks whether every rank of the launcher's world is announced
//      and none asks for MPI_THREAD_SERIALIZED (where no thread may be sure of being alone), and
//      writes its finding into one file, created exclusively. All others take that finding, so that
//      either everybody posts the duplicate of the world or nobody does.
//   4. Found good: libtdump_mpi.so posts it (coordinator/mpi/transport_mpi.h). Else, and wherever
//      anything fails, the agreement goes over files.
// Nothing here waits for another rank.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "coordinator/transport.h"
#include "core/env.h"
#include "core/identity.h"

namespace tdump::launch {

struct MpiWorld {
  int32_t rank = -1;
  int32_t world = -1;
  std::unique_ptr<coordinator::AgreementTransport> transport;  // null: the agreement uses files
  std::string why_not;  // where there is no transport: what stood against it; may be empty
};

// Step 1. `clock_directory`: made when missing. `identity`: what the launcher says.
Status AnnounceMpi(Env* env, const std::string& clock_directory, const Identity& identity,
                   int thread_level);
// Step 3, for one process: what stands against MPI, as the first process found it; "": nothing.
Result<std::string> WhyNotMpi(Env* env, const std::string& clock_directory,
                              const Identity& identity);
// Steps 3 and 4; rank and world as MPI has them, -1 when they cannot be asked.
MpiWorld OpenMpiWorld(Env* env, const std::string& clock_directory, const Identity& identity);

}  // namespace tdump::launch
