// Failing before the start, when all ranks of a job fail the same way at the same moment.
//
// mpirun ends the job when the first rank exits non-zero and drops what the ranks, that one too,
// still had in their pipes. So one rank speaks, stays until its pipe has been read, and only then
// exits; the others stay silent and alive.
//   1. On one node the ranks claim the right to speak by binding an abstract socket
//      named after the job. Rank 0 tries at once. The others try a moment later and get
//      it only where rank 0 did not fail, or is not under tdump-run (one program of an
//      MPMD job, settings that differ by rank).
//   2. On several nodes rank 0, or the first rank of each program of an MPMD job, speaks.
//   3. A process that no launcher numbered speaks at once and does not wait.
#pragma once

#include <string>

namespace tdump::launch {

// Prints `message` (lines get no prefix added) if this process is to speak. Returns `status` for
// main(), once it is safe to exit.
int FailOnce(const std::string& message, int status);

}  // namespace tdump::launch
