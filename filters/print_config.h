// PrintConfig: a Config as YAML, the other half of filters/parse_config.h.
#pragma once

#include <string>

#include "filters/config.h"

namespace tdump::filters {

// Every key that this version knows, with its value in force. ParseConfig reads it back as an equal
// Config. Sections and lists of rules stand in block style, everything below in flow style.
std::string PrintConfig(const Config& config);

}  // namespace tdump::filters
