#include "tools/strict.h"

#include <algorithm>

#include "core/env.h"
#include "filters/parse_config.h"
#include "settings/yaml_tree.h"

namespace tdump::tools {

constexpr uint64_t kMostConfig = 1 << 20;  // bytes

bool IsStrict(const std::string& run) {
  const std::string path = JoinPath(run, "config.yaml");
  const auto yaml = ReadFile(Env::Posix(), path, kMostConfig);
  if (!yaml.ok()) return false;
  if (const auto config = filters::ParseConfig(*yaml, path); config.ok()) return config->strict;
  // One that another tdump wrote, which allowed what this one refuses.
  settings::Mistakes mistakes(path);
  const settings::YamlPtr tree = settings::ParseYaml(*yaml, &mistakes);
  return tree != nullptr &&
         std::ranges::any_of(tree->entries, [](const settings::YamlEntry& entry) {
           return entry.key == "strict" && entry.value->text == "true";
         });
}

}  // namespace tdump::tools
