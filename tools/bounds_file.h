// The file of `tdump-diff --bounds`: rules by operator in YAML.
//
//     bounds:                                   # the first rule that matches decides
//       - {name: 'mlp\.down_proj$', expect: sqnr_db >= 30}
//       - {name: [embed, lm_head], role: output, expect: max_abs <= 1e-3 and nan_mismatch == 0}
//       - {name: '\.norm$', compute: bf16, allow: [dtype]}
#pragma once

#include <string>
#include <string_view>

#include "compare/rules.h"
#include "core/status.h"

namespace tdump::tools {

inline constexpr uint64_t kMaxBoundsBytes = 1 << 20;

// `source`: the file's name, for messages. Error: every mistake as "file:line:column: what;
// expected ...; did you mean ...?".
Result<compare::BoundRules> ParseBounds(std::string_view yaml, const std::string& source);
Result<compare::BoundRules> ReadBoundsFile(const std::string& path);

}  // namespace tdump::tools
