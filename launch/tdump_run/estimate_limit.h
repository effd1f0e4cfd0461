// What output.limit and output.layout make of an estimate.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "filters/config.h"
#include "launch/tdump_run/estimate.h"

namespace tdump::launch {

// Bytes that the whole run may take where `free_bytes` are free. nullopt: not known.
std::optional<uint64_t> LimitOfRun(const filters::Config& config,
                                   std::optional<uint64_t> free_bytes);

// What follows "output.limit ": the limit, and the step that reaches it where one does.
std::string LimitText(const std::vector<RankEstimate>& ranks, const filters::Config& config,
                      std::optional<uint64_t> free_bytes);

// Files of all passes.
uint64_t FilesOfPasses(const std::vector<RankEstimate>& ranks, const filters::Config& config);

}  // namespace tdump::launch
