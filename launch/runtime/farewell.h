// Farewell: the end of a job's run. One process, and only one, settles the last step numbers,
// merges the manifests and prints the verdict:
//
//   1. Rank 0 waits for the others, at most a second, and only while all that are missing have not
//      been seen yet, are in their last step or on their way out as well.
//   2. Then, and for every other rank at once: whoever finds all processes of the job closed or
//      dead claims the verdict, a file created exclusively. The last to close always finds that.
//      A rank that comes only afterwards makes the last one claim a verdict of its own.
//   3. Where rank 0 has to leave the others behind, it says so in one line; the last one speaks.
// A job whose last processes are killed has no verdict of its own; tdump-view gives it.
#pragma once

#include <cstdint>
#include <string>

#include "coordinator/slot_file.h"
#include "core/env.h"
#include "core/identity.h"

namespace tdump::launch {

struct FarewellFacts {
  Identity identity;
  std::string run;    // the run directory
  std::string clock;  // its clock/
  std::string shown;  // as the user names it
  uint32_t generation = 0;
  uint64_t steps = 0;  // of this process
};

// Sets `slots` to closed on the way. Nothing of the run is written by this process afterwards.
void SayFarewell(Env* env, const FarewellFacts& facts, coordinator::SlotWriter* slots);

}  // namespace tdump::launch
