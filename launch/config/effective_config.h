// The effective configuration: defaults < YAML < environment < command line of tdump-run. tdump-run
// works it out once and hands it to the job as text (TDUMP_EFFECTIVE); a process that was started
// without tdump-run works it out itself.
#pragma once

#include <functional>
#include <string>

#include "core/status.h"
#include "filters/config.h"

namespace tdump::launch {

struct EffectiveConfig {
  filters::Config config;
  std::string yaml;  // reads back as `config`
};

Result<EffectiveConfig> EffectiveConfigOfProcess();

}  // namespace tdump::launch
