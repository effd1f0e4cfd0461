// What a captured step costs by the clock, for tdump-run --estimate.
//
// The job's threads pay for copies and for each record. The writer thread hashes, makes statistics
// and writes files: whether the job waits for that depends on what is not known before the capture
// (a core to spare, how threads of the job wait for each other), so the answer is a range.
//
//   slowdown(share) = (thread + share * writer) / (step - probe.thread - share * probe.writer)
//
// with share 0 where the writer has a core to itself and 1 where the job stands still meanwhile.
// `step` is what a step took in the run that was looked at, `probe` what tdump took of it there.
// The formula is the same with --from and without. A disk that takes less than is asked of it slows
// steps once the arena is full, as long as `memory.max_block` lets them wait; where the steps asked
// for do not fill it, it slows none.
#pragma once

#include <cstdint>
#include <string>

#include "filters/config.h"
#include "launch/tdump_run/estimate_rates.h"

namespace tdump::launch {

// What one step has tdump do.
struct StepWork {
  uint64_t records = 0;
  uint64_t copied_bytes = 0;      // by the job's threads; hashed by the writer
  uint64_t statistics_bytes = 0;  // of these
  uint64_t file_bytes = 0;
};

// A step of the run that was looked at.
struct TimedStep {
  StepWork work;
  double seconds = 0;   // from its begin to the next one's, the mean of several; 0: not known
  double blocked = 0;   // of them, waited for room in the arena
  double captured = 1;  // share of the steps of that mean that were captured
};

// What the disk is asked for, by all ranks together.
struct DiskLoad {
  uint64_t written = 0;  // bytes in the time of one step
  uint64_t copied = 0;   // bytes that wait in the arenas until they are written, of one step
  uint64_t steps = 0;    // that are captured; 0: without end
  uint64_t arenas = 0;   // bytes; 0: not known, taken to be full
};

struct StepCost {
  double plain = 0;          // seconds without tdump; 0: not known
  double low = 0, high = 0;  // slowdown, as a share of that
  double low_seconds = 0, high_seconds = 0;
  // Seconds of the step that was looked at, where it is short and most of it was tdump's: what is
  // left is a difference of two figures that are each not known well, and no share is told. Else 0.
  double too_short = 0;
  // The disk takes less than the steps give it; and so long that the arenas fill.
  bool disk_is_late = false, disk_is_limit = false;
  double full_after = 0;  // steps until they are full
};
StepCost CostOf(const StepWork& asked, const TimedStep& seen, const DiskLoad& load,
                const Rates& rates, const filters::Config& config);

// The lines "slowdown" and "disk".
std::string CostText(const StepCost& cost, const DiskLoad& load, const Rates& rates,
                     const filters::Config& config);

}  // namespace tdump::launch
