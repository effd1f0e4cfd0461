// The automatic limits of docs/config.md: how much memory and disk a process may take.
#pragma once

#include <cstdint>

#include "core/env.h"

namespace tdump::launch {

// memory.host: auto. min(4 GiB, 5 % of what this process's node or memory cgroup has / ranks on the
// node, 5 % of what ulimit -v or -d leaves the process), at least 16 MiB.
uint64_t ArenaBytes(uint64_t configured, int local_ranks);
// Bytes of memory of the node, or of the tightest memory cgroup this
// process is in, whichever is less.
uint64_t MemoryOfNode(Env* env);
// output.limit: auto. 10 % of the free space, at most 100 GiB, for the whole run.
uint64_t RunLimitBytes(uint64_t configured, uint64_t free_bytes);

}  // namespace tdump::launch
