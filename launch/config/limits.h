// The automatic limits of docs/config.md: how much memory and disk a process may take.
#pragma once

#include <cstdint>

#include "core/env.h"
#include "filters/config.h"

namespace tdump::launch {

// memory.host: auto. min(4 GiB, 5 % of what this process's node or memory cgroup has / ranks on the
// node, 5 % of what ulimit -v or -d leaves the process), at least 16 MiB.
uint64_t ArenaBytes(Env* env, uint64_t configured, int local_ranks);
// The same from what the node has and what the process may have, in bytes.
uint64_t AutomaticArena(uint64_t node, uint64_t process, int local_ranks);
// Bytes of memory of the node, or of the tightest memory cgroup this
// process is in, whichever is less.
uint64_t MemoryOfNode(Env* env);
// output.limit: auto. 10 % of the free space, at most 100 GiB, for the whole run.
uint64_t RunLimitBytes(uint64_t configured, uint64_t free_bytes);
// Ranks of the world that record; each has an equal part of that limit.
uint64_t SelectedRanks(const filters::Config& config, int world);
// output.layout: auto. How many passes of each of the `writers` (of `world` ranks) get a file of
// their own before the later ones are packed: the run stays under 10,000 files, manifests, slots
// and packed files included, as far as packing can do that.
uint64_t SingleFiles(uint64_t world, uint64_t writers);
// The ranks are too many for that: their files go into one a node.
bool NeedsNodeFiles(uint64_t world, uint64_t writers);

}  // namespace tdump::launch
