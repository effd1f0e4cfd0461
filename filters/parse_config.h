// ParseConfig: the text of a tdump.yaml into a Config, or everything that is wrong with it.
#pragma once

#include <string>
#include <string_view>

#include "core/status.h"
#include "filters/config.h"

namespace tdump::filters {

// Defaults where the text says nothing; an empty text is all defaults. On failure kInvalidArgument
// whose message has one line a mistake: "FILE:LINE:COLUMN: what; expected ...; did you mean 'x'?".
// No exception leaves; the input may be anything. Checks that need the whole of the settings
// (ValidateForWorld) come after the overlays.
Result<Config> ParseConfig(std::string_view yaml, std::string_view source_name);

// One setting from outside a file: the full path of a key ("memory.host") and its value.
struct OneSetting {
  std::string key;
  std::string value;
  bool yaml = true;  // `value` is YAML; else it is taken as it stands
};
// Sets it in `*config`; on failure `*config` is as before, and the message starts with `source`.
Status ApplySetting(const OneSetting& setting, std::string_view source, Config* config);
// Gives every rule that keeps something this level, "hash" or "[meta, hash]".
Status ApplyLevel(std::string_view level, std::string_view source, Config* config);

// Reads the file, at most 1 MiB of it; messages call it `shown`.
Result<Config> LoadConfig(const std::string& path, const std::string& shown);

// What only the finished settings show: `use` and `where` that lead nowhere, rules that can never
// match, predicate files that are not there, ranks that the job does not have. `world` 0: not
// known, ranks are not checked.
Status ValidateForWorld(const Config& config, int world);

}  // namespace tdump::filters
