// tdump-run --estimate: what a configuration will write, before it is used.
//
//   1. Without --from, the job is run once as it is, with hashes instead of values, in the first
//      two selected steps, into a temporary directory (ProbeOptions, launch/tdump_run/
//      probe_directory.h). The first step also has what is taken once (the signature); the second
//      stands for all others.
//   2. Each record of those steps is asked what the configuration keeps of it; equal contents count
//      once, as the writer stores them once. The metadata is that of the files written.
// With --from RUN, RUN stands for step 1: it must hold (at least) hashes of what the configuration
// selects. Rules with `where` count as if the predicate said yes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/env.h"
#include "core/status.h"
#include "filters/config.h"
#include "io/address.h"
#include "launch/tdump_run/options.h"

namespace tdump::launch {

// One pass of the run that was looked at, written under the configuration.
struct StepEstimate {
  uint64_t records = 0;
  uint64_t copied_bytes = 0;  // by the job's threads
  uint64_t file_bytes = 0;
  uint64_t unknown = 0;  // records whose hash the run does not hold: counted as all different
  double seconds = 0;    // from this step's begin to the next one's; 0: not known
};

struct RankEstimate {
  int32_t rank = 0, world = 1;
  std::vector<StepEstimate> steps;  // ordered
  uint64_t later_steps = 0;         // selected steps beyond them; each as the last one
  bool endless = false;             // no last step is selected
  uint64_t total_bytes() const;
  uint64_t files() const;
};

// What `config` would write for each selected rank of the generation that `run` means, by its first
// two steps.
Result<std::vector<RankEstimate>> EstimateFromRun(Env* env, const io::RunRef& run,
                                                  const filters::Config& config);

// `options` for the run that is looked at: hashes of the first two selected steps, in `directory`.
Options ProbeOptions(Options options, const filters::Config& config, const std::string& directory);

// Bytes a second of one thread's copies, measured.
double CopyBandwidth();

// The table that the user sees.
std::string EstimateText(const std::vector<RankEstimate>& ranks, const filters::Config& config,
                         double copy_bandwidth);

}  // namespace tdump::launch
