// The command behind tdump-diff: options in, report out.
#pragma once

#include <string>
#include <vector>

#include "tools/options.h"

namespace tdump::tools {

// Used once, by one thread. Run() returns the exit status; what went wrong is told on stderr.
class DiffCommand {
 public:
  DiffCommand();
  int Run(int argc, char** argv);

 private:
  Options options_;
  std::string a_, b_;
  std::string require_ = "tolerance";
  std::string steps_ = "all", ranks_ = "all";
  std::vector<std::string> select_, allow_unpaired_, allow_failed_;
  std::string jsonl_;
  unsigned top_ = 5, jobs_ = 0;
  bool all_ = false;
};

}  // namespace tdump::tools
