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

// The same over another base than the defaults. Keys that the text has replace those of `base`.
Result<Config> ParseConfigOver(Config base, std::string_view yaml, std::string_view source_name);

// Reads the file, at most 1 MiB of it. The source is `path`.
Result<Config> LoadConfig(const std::string& path);

// What only the finished settings show: `use` and `where` that lead nowhere, rules that can never
// match, ranks that the job does not have. `world` 0: not known, ranks are not checked.
Status ValidateForWorld(const Config& config, int world);

}  // namespace tdump::filters
