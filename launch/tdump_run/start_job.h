// Replaces this process by COMMAND, or runs it as a child.
#pragma once

#include <string>
#include <vector>

#include "launch/tdump_run/job_environment.h"

namespace tdump::launch {

inline constexpr int kFailedBeforeStart = 125;
inline constexpr int kNotExecutable = 126;
inline constexpr int kNotFound = 127;

// Returns only when it failed: the exit status, and why in `error`.
int ExecJob(const std::vector<std::string>& command, const EnvironmentChanges& changes,
            std::string* error);
// Its exit status as a shell gives it (128 + signal). Failed to start: as ExecJob. Signals that
// would end this process go to the job instead, those that ask it to end set `*interrupted`; those
// of a terminal reach the job by themselves. Not thread-safe.
int RunJob(const std::vector<std::string>& command, const EnvironmentChanges& changes,
           std::string* error, bool* interrupted);

}  // namespace tdump::launch
