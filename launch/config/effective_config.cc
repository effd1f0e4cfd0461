#include "launch/config/effective_config.h"

#include <cstdlib>

#include "core/env.h"
#include "filters/parse_config.h"

namespace tdump::launch {

Result<EffectiveConfig> EffectiveConfigOfProcess() {
  const char* source = std::getenv("TDUMP_CONFIG");
  EffectiveConfig effective;
  if (const char* text = std::getenv("TDUMP_EFFECTIVE"); text != nullptr && text[0] != '\0') {
    effective.yaml = text;
  } else if (source != nullptr && source[0] != '\0') {
    TDUMP_ASSIGN_OR_RETURN(effective.yaml, ReadFile(Env::Posix(), source, 1 << 20));
  }
  TDUMP_ASSIGN_OR_RETURN(
      effective.config,
      filters::ParseConfig(effective.yaml, source != nullptr ? source : "defaults"));
  return effective;
}

}  // namespace tdump::launch
