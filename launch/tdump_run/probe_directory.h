// The directory of the run that --estimate looks at, below the directory for temporary files.
//
// A tdump-run that no launcher numbered has one of its own. Ranks of one job, each under its own
// tdump-run, share one that is named after the job:
//   1. Each rank makes it or finds it, and holds a lock on the file rank.N there as long as it
//      lives. The kernel releases the lock of a rank that is killed.
//   2. When its job has ended, the lowest rank speaks for all: it waits until the other locks are
//      free, looks at the run, and removes the directory. The others are silent.
// On several nodes the ranks that do not see the directory are missing in the estimate.
//
// A tdump-run below another one's --estimate (TDUMP_ESTIMATE names the directory) joins it: it
// leaves its configuration there as asked.N.yaml, N being its rank.
#pragma once

#include <optional>
#include <string>

#include "core/status.h"
#include "launch/tdump_run/job_environment.h"

namespace tdump::launch {

inline constexpr const char* kEstimateVariable = "TDUMP_ESTIMATE";

// A value; what it locked stays locked until the process ends.
class ProbeDirectory {
 public:
  // `world`: ranks that share it, as far as known; below 2: none.
  static Result<ProbeDirectory> Make(int world, const Environment& present);

  const std::string& path() const { return path_; }
  std::string run() const { return path_ + "/run"; }
  bool shared() const { return world_ > 1; }
  int rank() const { return rank_; }
  // Waits for the other ranks. False: another rank speaks for this one.
  bool Speaks() const;
  void Remove() const;

 private:
  std::string path_;
  int world_ = 1;
  int rank_ = 0;
};

// The directory that an enclosing --estimate has made.
std::optional<std::string> EnclosingEstimate(const Environment& present);

// What a rank asked for, as YAML.
Status LeaveAsked(const std::string& directory, int rank, const std::string& yaml);
struct AskedConfig {
  std::string yaml;
  bool differs = false;  // another rank asked for something else
};
// Of the lowest rank that left one.
std::optional<AskedConfig> ReadAsked(const std::string& directory);

}  // namespace tdump::launch
