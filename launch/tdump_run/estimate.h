// tdump-run --estimate: what a configuration will write, before it is used.
//
//   1. Without --from, the job is run once as it is, with hashes instead of values, in the first
//      two selected steps and the three after them, into a temporary directory (ProbeOptions,
//      launch/tdump_run/probe_directory.h). The first step also has what is taken once (the
//      signature), and is slow for reasons of the job; the second stands for all others, and is
//      timed together with those after it.
//   2. Each record of the first two is asked what the configuration keeps of it; equal contents
//      count once, as the writer stores them once. The metadata is that of the files written.
//   3. The slowdown is what launch/tdump_run/estimate_cost.h says of them.
// With --from RUN, RUN stands for step 1: it must hold (at least) hashes of what the configuration
// selects, and what it kept itself is taken from the time of its steps. Rules with `where` count as
// if the predicate said yes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/env.h"
#include "core/status.h"
#include "filters/compiled_plan.h"
#include "filters/config.h"
#include "io/address.h"
#include "launch/tdump_run/estimate_cost.h"
#include "launch/tdump_run/options.h"

namespace tdump::launch {

// One pass of the run that was looked at, written under the configuration.
struct StepEstimate {
  StepWork work;
  uint64_t unknown = 0;  // records whose hash the run does not hold: counted as all different
  uint32_t roles = 0;    // as in RankEstimate
  TimedStep seen;        // in the run that was looked at
};

struct RankEstimate {
  int32_t rank = 0, world = 1;
  std::string host;                 // of the run that was looked at
  std::vector<StepEstimate> steps;  // ordered
  uint64_t later_steps = 0;         // selected steps beyond them; each as the last one
  uint64_t ran = 0;                 // steps of the process; 0: not known
  uint64_t beyond = 0;              // of the later steps, those that it did not come to
  bool endless = false;             // no last step is selected
  uint64_t manifest_bytes = 0;      // beside the passes, of the run that was looked at
  bool open_at_end = false;         // the last of `steps` was the last one of the process
  uint64_t last_step = 0;           // its number in the process
  // Records of the steps looked at that were asked for and could not be kept there.
  std::map<SkipReason, uint64_t> lost;
  uint32_t roles = 0;                     // seen in them, beside the signature; bit = Role
  std::vector<filters::RuleCount> rules;  // how many operators in them each rule matched
  uint64_t total_bytes() const;
  uint64_t files() const;
};

// What `config` would write for each selected rank of the generation that `run` means, by its first
// two steps.
Result<std::vector<RankEstimate>> EstimateFromRun(Env* env, const io::RunRef& run,
                                                  const filters::Config& config);

// `options` for the run that is looked at: hashes of the first two selected steps and of those that
// are timed, in `directory`.
Options ProbeOptions(Options options, const filters::Config& config, const std::string& directory);

// The table that the user sees. `free_bytes`: of the disk that the run will be on, where known;
// `arena_bytes`: of each process, 0 where not known.
std::string EstimateText(const std::vector<RankEstimate>& ranks, const filters::Config& config,
                         const Rates& rates, std::optional<uint64_t> free_bytes = std::nullopt,
                         uint64_t arena_bytes = 0);

}  // namespace tdump::launch
