// Who this process is within its job, and where that was read from.
#pragma once

#include <cstdint>
#include <string>

namespace tdump {

struct Identity {
  int32_t rank = 0;
  int32_t world = 1;
  int32_t local_rank = 0;
  std::string source;  // "process group", "MPI", "torchrun", "PMIx", "PMI", "Slurm", "none"
  std::string host;
  int64_t pid = 0;
  uint64_t start_time = 0;  // of the process, in clock ticks since boot: with host and pid unique
  std::string job_key;      // equal on all ranks of a job
  std::string job_label;    // the human part: "8123456.0"
  std::string program;      // argv[0] and arguments, at most 4 KiB
};

}  // namespace tdump
