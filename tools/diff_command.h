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
  // In every process of a team; the status of the first counts.
  int CompareSides(compare::DiffOptions* diff);
  static int SuggestMap(const compare::DiffOptions& diff, const compare::RunSide& a,
                        const compare::RunSide& b);
  static bool IsFirst(const compare::DiffOptions& diff);
  static bool AllAreReady(const compare::DiffOptions& diff, const Status& status);

  Options options_;
  DiffSettings settings_;
};

}  // namespace tdump::tools
