// The command behind tdump-diff: options in, report out.
#pragma once

#include "tools/diff_options.h"
#include "tools/options.h"

namespace tdump::tools {

// Used once, by one thread. Run() returns the exit status; what went wrong is told on stderr.
class DiffCommand {
 public:
  DiffCommand();
  int Run(int argc, char** argv);

 private:
  int Compare(int argc, char** argv);

  Options options_;
  DiffSettings settings_;
};

}  // namespace tdump::tools
