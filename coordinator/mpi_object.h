// The border of libtdump_mpi.so, the MPI transport (coordinator/mpi/transport_mpi.h): what launch
// finds in it by name. MPI is initialised and not finalised when these are called.
#pragma once

#include <cstdint>

#include "coordinator/transport.h"

namespace tdump::coordinator {

// Children of a rank in the tree: a job of 17 ranks has none between, one of 4,000 two.
inline constexpr int32_t kMpiFanOut = 16;

// "tdump_mpi_stamp": kBuildStamp of the object.
using MpiStampFn = uint64_t (*)();
// "tdump_mpi_world": rank and size of the world.
using MpiWorldFn = void (*)(int32_t* rank, int32_t* size);
// "tdump_mpi_transport": posts the duplicate of the world; every rank of it must do the same. The
// caller owns the result, null when MPI refuses.
using MpiTransportFn = AgreementTransport* (*)(int32_t fan_out);

}  // namespace tdump::coordinator
