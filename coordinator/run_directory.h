// RunDirectory: where a process writes. All processes of a job come to the same run directory and
// the same generation without talking to each other; none ever overwrites what is there.
//
//   1. `output.dir` with {job} replaced by the job's label (the same on all ranks), made with all
//      parents, mode 0700.
//   2. `generations` holds the job keys seen so far, one a line. A job's generation is the position
//      of its key; the first process to come appends it under an exclusive lock, writes the
//      effective config and turns `latest` to the run.
//   3. The process claims a name by creating clock/rankN_pidM.slot exclusively. Where another host
//      or container has the same rank and pid, "_h" and a hash of host and start time are appended.
//   4. Its directory rankN_pidM is made. Slot file and directory go by the same name.
// Any failure is a Status: the process then runs without a dump.
#pragma once

#include <memory>
#include <string>

#include "core/env.h"
#include "core/identity.h"

namespace tdump::coordinator {

struct RunDirectoryOptions {
  std::string pattern = "outputs/tdump_{job}";
  bool error_if_exists = false;  // output.if_exists: error
  int mode = 0700;
  std::string config;  // text of the effective config; empty: not written
  // Stands for {job} where nothing names the job; empty: now, as 20261127-222801.
  std::string start_time;
};

struct RunDirectory {
  std::string run;
  uint32_t generation = 0;
  bool first = false;                  // this process opened the generation
  std::string name;                    // "rank0_pid3069569"
  std::string rank_directory;          // run/name
  std::string clock_directory;         // run/clock
  std::unique_ptr<WritableFile> slot;  // clock/name.slot, empty
};

// {job} filled in; characters other than letters, digits, '.', '_', '-' become '_'.
std::string ResolveRunPath(const RunDirectoryOptions& options, const std::string& job_label);

Result<RunDirectory> PrepareRunDirectory(Env* env, const Identity& identity,
                                         const RunDirectoryOptions& options);

// Position of `job_key` among the lines of `generations`; -1 when it is not there. Lines that were
// not finished (a process died while writing) do not count.
int64_t FindGeneration(const std::string& generations, const std::string& job_key);
// A job key as one line.
std::string GenerationLine(const std::string& job_key);

}  // namespace tdump::coordinator
