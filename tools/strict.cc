#include "tools/strict.h"

#include "core/env.h"
#include "filters/parse_config.h"

namespace tdump::tools {

constexpr uint64_t kMostConfig = 1 << 20;  // bytes

bool IsStrict(const std::string& run) {
  const std::string path = JoinPath(run, "config.yaml");
  const auto yaml = ReadFile(Env::Posix(), path, kMostConfig);
  if (!yaml.ok()) return false;
  const auto config = filters::ParseConfig(*yaml, path);
  return config.ok() && config->strict;
}

}  // namespace tdump::tools
