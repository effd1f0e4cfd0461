// A PassDiff as bytes, between processes of one build (compare/team.h). Not a file format.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compare/pass_diff.h"
#include "core/status.h"

namespace tdump::compare {

// Without its views. `rules`: those that judged, the same in both processes; may be null.
std::string ArchivePassDiff(const PassDiff& diff, const BoundRules* rules);
// Error (kCorrupt): not what ArchivePassDiff wrote.
Result<PassDiff> UnarchivePassDiff(std::string_view bytes, const BoundRules* rules);

// Some of the outcomes of a step, with their numbers in it.
using NumberedOutcome = std::pair<uint32_t, Outcome>;
std::string ArchiveOutcomes(const std::vector<Outcome>& outcomes, std::span<const uint32_t> numbers,
                            const BoundRules* rules);
Result<std::vector<NumberedOutcome>> UnarchiveOutcomes(std::string_view bytes,
                                                       const BoundRules* rules);

}  // namespace tdump::compare
