// What an estimate lacks, as notes below its table, and why there may be none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/env.h"
#include "filters/config.h"
#include "io/address.h"
#include "launch/tdump_run/estimate.h"

namespace tdump::launch {

// Records that were lost to the disk where it was looked.
uint64_t LostToTheDisk(const std::vector<RankEstimate>& ranks);
// Where there were some: why there is no estimate. `free_bytes`: of the disk of `folder`, where
// known.
std::string WhyNoRoom(const std::vector<RankEstimate>& ranks, const std::string& folder,
                      std::optional<uint64_t> free_bytes);

// Lines "note": records that were lost, rules that matched nothing and, where a run that is there
// was looked at (`from`), roles that the rules ask for and it has none of.
std::string NotesOfLosses(const std::vector<RankEstimate>& ranks, const filters::Config& config,
                          bool from);

// Of a job that ended well, when `run` has no pass of a selected rank.
std::string WhyNoPass(Env* env, const io::RunRef& run, const filters::Config& config);

}  // namespace tdump::launch
