// The words of settings/ (YAML trees, regexes, mistakes) as filters/ uses them.
#pragma once

#include "settings/mistakes.h"
#include "settings/regex.h"
#include "settings/yaml_tree.h"

namespace tdump::filters {

using settings::FlowText;
using settings::kMaxYamlBytes;
using settings::kMaxYamlDepth;
using settings::kMaxYamlWeight;
using settings::Mistakes;
using settings::Nearest;
using settings::ParseYaml;
using settings::Position;
using settings::Printable;
using settings::Regex;
using settings::YamlEntry;
using settings::YamlNode;
using settings::YamlPtr;
using settings::YamlScalar;

}  // namespace tdump::filters
