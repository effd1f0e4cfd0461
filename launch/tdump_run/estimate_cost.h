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
// steps once the arena is full, as long as `memory.max_block` lets them wait.
#pragma once

#include <cstdint>
#include <string>

#include "filters/config.h"

namespace tdump::launch {

// Bytes a second of one thread, measured beside whatever else the machine does now: it did so when
// the steps were timed. 0: not known.
struct Rates {
  double copy = 0;  // from memory to memory
  double hash = 0;
  double statistics = 0;  // of float32
  double write = 0;       // to files in the folder of the run, as far as the page cache takes it
  double disk = 0;        // the same, until it is on the disk
  unsigned cores = 0;     // that this process may use; 0: not known
};

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

struct StepCost {
  double plain = 0;          // seconds without tdump; 0: not known
  double low = 0, high = 0;  // slowdown, as a share of that
  bool disk_is_limit = false;
};
// `all_ranks`: bytes that all ranks write in the time of one step.
StepCost CostOf(const StepWork& asked, const TimedStep& seen, uint64_t all_ranks,
                const Rates& rates, const filters::Config& config);

// The lines "slowdown" and "disk".
std::string CostText(const StepCost& cost, uint64_t all_ranks, const Rates& rates,
                     const filters::Config& config);

// The folder, or what of the path to it is there.
std::string NearestFolder(const std::string& folder);

// `folder`: of the run, there or not; a file without a name is written where it will be.
Rates MeasureRates(const std::string& folder);

}  // namespace tdump::launch
