// Failing before the start, when all ranks of a job fail the same way at the same moment.
//
// mpirun ends the job when the first rank exits non-zero and drops what the others, and often that
// one, still had in their pipes. So one rank speaks and exits; the others stay silent and alive
// long enough for the message to get through.
//   1. The speaker is rank 0, or the first rank of each program of an MPMD job (rank 0's program
//   may not be under tdump-run).
//   2. Where all ranks are on one node, speakers claim the right to speak by binding an abstract
//   socket, so that one message
//      is left even when several programs of the job fail.
//   3. A process that no launcher numbered speaks.
#pragma once

#include <string>

namespace tdump::launch {

// Prints `message` (lines get no prefix added) if this process is to speak, else waits. Returns
// `status` for main().
int FailOnce(const std::string& message, int status);

}  // namespace tdump::launch
