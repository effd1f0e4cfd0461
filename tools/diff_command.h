// The command behind tdump-diff: options in, report out.
#pragma once

#include <string>
#include <vector>

#include "tools/diff_options.h"
#include "tools/diff_source.h"
#include "tools/options.h"
#include "tools/watched_patterns.h"

namespace tdump::tools {

// Used once, by one thread. Run() returns the exit status; what went wrong is told on stderr.
class DiffCommand {
 public:
  DiffCommand();
  int Run(int argc, char** argv);

 private:
  std::string Contradiction() const;
  int Compare(int argc, char** argv);
  // In every process of a team; the status of the first counts.
  int CompareSides(compare::DiffOptions* diff);
  static int SuggestMap(const compare::DiffOptions& diff, const compare::RunSide& a,
                        const compare::RunSide& b);
  static bool IsFirst(const compare::DiffOptions& diff);
  static bool AllAreReady(const compare::DiffOptions& diff, const Status& status);
  static std::vector<std::string> UnusedRules(const compare::DiffOptions& diff,
                                              const compare::DiffReport& report);
  void NoteUnused(const compare::DiffOptions& diff, const DiffSources& sources,
                  compare::DiffReport* report) const;

  Options options_;
  DiffSettings settings_;
  WatchedPatterns watched_;
};

}  // namespace tdump::tools
