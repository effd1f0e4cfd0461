// DiffSettings: the options of tdump-diff as they were written, and what they ask of the engine.
#pragma once

#include <string>
#include <vector>

#include "compare/diff.h"
#include "core/status.h"
#include "tools/options.h"
#include "tools/watched_patterns.h"

namespace tdump::tools {

struct DiffSettings {
  std::string a;
  std::vector<std::string> b;  // none with `across`
  std::string across;
  std::string require = "tolerance";
  std::string steps = "all", ranks = "all";
  std::vector<std::string> select, allow_unpaired, allow_failed;
  std::string compute, bounds;
  std::vector<std::string> noise;
  std::vector<std::string> align, dims, topology;
  std::string map;
  std::string jsonl, html;
  unsigned top = 5, values = 1, jobs = 0;
  bool all = false, bisect = false, suggest_map = false, verify = false, mpi = false;

  // Adds every option; `this` outlives the parsing.
  void AddTo(Options* options);
  // Error: the option, and what is wrong with its value. `watched` is given the patterns of names.
  Result<compare::DiffOptions> ForEngine(WatchedPatterns* watched) const;

  bool requires_bits() const { return require == "bitwise"; }
};

}  // namespace tdump::tools
