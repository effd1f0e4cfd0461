// `use:` a rule that stands for a named list of rules.
#pragma once

#include <vector>

#include "filters/config.h"
#include "filters/settings.h"

namespace tdump::filters {

// Adds a mistake for each `use` of an unknown list, each cycle, and lists
// that grow beyond kMaxExpandedRules.
void CheckUses(const Config& config, Mistakes* mistakes);

inline constexpr size_t kMaxExpandedRules = 10'000;

// A rule of a filter set after expansion. `number` counts the set's own entries from 1: rules that
// came by one `use` share its number.
struct ExpandedRule {
  const Rule* rule = nullptr;
  uint32_t number = 0;
};
// Precondition: CheckUses found no mistake. Unknown names and what
// goes beyond the bound are left out.
std::vector<ExpandedRule> ExpandUses(const Config& config, const FilterSet& set);

}  // namespace tdump::filters
