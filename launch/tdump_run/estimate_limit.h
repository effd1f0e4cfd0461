// What output.limit and output.layout make of an estimate.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "filters/config.h"
#include "launch/tdump_run/estimate.h"

namespace tdump::launch {

// What the run may take, in bytes.
struct Room {
  uint64_t limit = 0;    // output.limit
  uint64_t on_disk = 0;  // free besides what is left to the job, where known
  uint64_t share = 0;    // of each selected rank, for payloads, by the tighter of the two
  bool disk_binds = false;
};
// Where `free_bytes` are free. nullopt: not known.
std::optional<Room> RoomOfRun(const std::vector<RankEstimate>& ranks, const filters::Config& config,
                              std::optional<uint64_t> free_bytes);

// How many selected steps each rank writes until one has no room; nullopt: all. `endless`: there is
// no last one.
std::optional<uint64_t> StepsUntilFull(const std::vector<RankEstimate>& ranks, const Room& room,
                                       bool endless);

// What follows "output.limit ": the limit, and the step for which it or the disk has no room, where
// one has none.
std::string LimitText(const std::vector<RankEstimate>& ranks, const filters::Config& config,
                      std::optional<uint64_t> free_bytes);

// Files of all passes.
uint64_t FilesOfPasses(const std::vector<RankEstimate>& ranks, const filters::Config& config);

}  // namespace tdump::launch
