// The command behind tdump-merge: options in, merged manifest out.
#pragma once

#include <string>
#include <vector>

#include "tools/options.h"

namespace tdump::tools {

class MergeCommand {
 public:
  MergeCommand();
  int Run(int argc, char** argv);

 private:
  int Merge(const std::string& run);

  Options options_;
  std::vector<std::string> runs_;
  bool strict_ = false;
  unsigned jobs_ = 0;
};

}  // namespace tdump::tools
