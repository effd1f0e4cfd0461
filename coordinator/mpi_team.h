// The border of libtdump_mpi.so for tools that run as an MPI program (--mpi): what they find in it
// by name. Opening the object is what brings an MPI library into a tool.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/status.h"

namespace tdump::coordinator {

// The processes of the world. Calls from one thread at a time. Every error is MPI's, and final.
class MpiTeam {
 public:
  virtual ~MpiTeam() = default;  // finalises MPI; all processes must

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Waits until process 0 takes it. In order.
  virtual Status Send(std::string_view bytes) = 0;
  virtual Result<std::string> Receive(int from) = 0;  // on process 0
  // The largest of what all processes give.
  virtual Result<int> Largest(int value) = 0;
};

// "tdump_mpi_team_stamp": kBuildStamp of the object.
using MpiTeamStampFn = uint64_t (*)();
// "tdump_mpi_team": initialises MPI. The caller owns the result; null: MPI refuses, or cannot be
// called by one thread after the other.
using MpiTeamFn = MpiTeam* (*)();

}  // namespace tdump::coordinator
