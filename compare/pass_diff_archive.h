// A PassDiff as bytes, between processes of one build (compare/team.h). Not a file format.
#pragma once

#include <string>
#include <string_view>

#include "compare/pass_diff.h"
#include "core/status.h"

namespace tdump::compare {

// Without its views. `rules`: those that judged, the same in both processes; may be null.
std::string ArchivePassDiff(const PassDiff& diff, const BoundRules* rules);
// Error (kCorrupt): not what ArchivePassDiff wrote.
Result<PassDiff> UnarchivePassDiff(std::string_view bytes, const BoundRules* rules);

}  // namespace tdump::compare
