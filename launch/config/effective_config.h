// The effective configuration: defaults < YAML < environment < command line of tdump-run. tdump-run
// works it out once and hands it to the job as text; a process that was started without tdump-run
// works it out itself.
//
// How the text is handed over: TDUMP_EFFECTIVE, TDUMP_EFFECTIVE_1, ... hold its parts of at most
// 64 KiB (the kernel refuses a variable above 128 KiB), the first one missing or empty ends it.
// TDUMP_EFFECTIVE_FROM names the file it came from.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/environment.h"
#include "core/status.h"
#include "filters/config.h"
#include "launch/config/overlay.h"

namespace tdump::launch {

struct EffectiveConfig {
  filters::Config config;
  std::string yaml;  // reads back as `config`
};

// `file`: path of the YAML file, "" for the built-in defaults. `shown`: what the user calls it.
// `world`: number of ranks, 0 where it is not known. Error: every mistake, a line each.
Result<EffectiveConfig> MakeEffectiveConfig(const std::string& file, const std::string& shown,
                                            const std::vector<Overlay>& overlays, int world);

// The variables that hand it over; of `present`, left-over parts of an
// earlier one are emptied. Error: too large.
Result<std::vector<std::pair<std::string, std::string>>> HandOver(const EffectiveConfig& settings,
                                                                  const Environment& present);

// What was handed to this process, else what its environment says.
Result<EffectiveConfig> EffectiveConfigOfProcess();

}  // namespace tdump::launch
