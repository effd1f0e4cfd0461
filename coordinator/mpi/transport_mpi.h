// MpiTransport: the agreement over a communicator of its own. A shared object of its own
// (libtdump_mpi.so, one per MPI flavour), opened by launch when the job's MPI is initialised.
//
//   1. OpenMpiTransport() posts MPI_Comm_idup on the world: the one collective tdump ever posts,
//      and only from inside the interposed MPI_Init*, when all processes of the world do the same.
//      Nothing is sent before it is complete; nobody waits for that.
//   2. Messages travel point to point along a tree over the ranks that have not
//      left: reports up to the lowest of them, which decides, decisions down to all.
//      Every hop forwards at its own boundaries.
//   3. One receive is posted at any time; it is cancelled when the transport
//      closes. Sends are small and complete at once; where they do not, later
//      messages are dropped, not queued without end.
//   4. MPI is called only from threads that the job's thread level allows: any
//      with MPI_THREAD_MULTIPLE, else the main thread. On another thread
//      messages wait for the next boundary.
//   5. After Close(), which comes before MPI_Finalize, MPI is not called any more. The communicator
//      is not freed: that would be a second collective.
#pragma once

#include <cstdint>
#include <memory>

#include "coordinator/mpi_object.h"
#include "coordinator/transport.h"
#include "core/runtime.h"

namespace tdump::coordinator {

// Collective over the world in the sense of 1. Null when MPI refuses.
std::unique_ptr<AgreementTransport> OpenMpiTransport(int32_t fan_out);

}  // namespace tdump::coordinator

// See coordinator/mpi_object.h.
extern "C" {
uint64_t tdump_mpi_stamp();
void tdump_mpi_world(int32_t* rank, int32_t* size);
tdump::coordinator::AgreementTransport* tdump_mpi_transport(int32_t fan_out);
}
