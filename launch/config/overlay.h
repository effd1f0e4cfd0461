// What is laid over the configuration file: the environment, then the command line of tdump-run.
#pragma once

#include <string>
#include <vector>

#include "core/environment.h"
#include "core/status.h"
#include "filters/config.h"
#include "filters/parse_config.h"

namespace tdump::launch {

// A value and where it came from, as messages name it: "TDUMP_STEPS", "command line".
struct Named {
  std::string source;
  std::string value;
};

struct NamedSetting {
  std::string source;
  filters::OneSetting setting;
};

// One layer of settings. `names` and `where` replace the capture rules by one: leaf modules, their
// outputs in full. `level` then goes to every rule that keeps something.
struct Overlay {
  std::vector<NamedSetting> settings;
  std::vector<Named> names;  // regexes
  std::vector<Named> where;  // at most one
  std::vector<Named> level;  // at most one
};

// TDUMP_DIR, TDUMP_STEPS, TDUMP_RANKS, TDUMP_LEVEL, TDUMP_FILTER, TDUMP_FILTER_FN and TDUMP_LOG; an
// empty one counts as none.
Overlay OverlayOfEnvironment(const Environment& environment);

// Lays them over `*config` in order. Error: the mistakes of all layers, a line each.
Status ApplyOverlays(const std::vector<Overlay>& overlays, filters::Config* config);

}  // namespace tdump::launch
