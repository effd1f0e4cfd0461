// The command behind tdump-merge: options in, merged manifests out.
#pragma once

#include <string>
#include <vector>

#include "tools/merge_join.h"
#include "tools/options.h"

namespace tdump::tools {

// Used once, by one thread. Run() returns the exit status; what went wrong is told on stderr.
class MergeCommand {
 public:
  MergeCommand();
  int Run(int argc, char** argv);

 private:
  // Exit status.
  int Merge(const JoinedRun& run, const std::string& shown);

  Options options_;
  std::vector<std::string> runs_;
  bool strict_ = false;
  unsigned jobs_ = 0;
};

}  // namespace tdump::tools
