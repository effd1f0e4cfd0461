#include "compare/rules.h"

#include <fmt/format.h>

#include <algorithm>

namespace tdump::compare {

const BoundRule* BoundRules::Find(const std::string& name, Role role) const {
  for (const BoundRule& rule : rules_) {
    const bool has_role = rule.roles.empty() ||
                          std::find(rule.roles.begin(), rule.roles.end(), role) != rule.roles.end();
    if (has_role && (!rule.matches || rule.matches(name))) return &rule;
  }
  return nullptr;
}

void ApplyRule(const BoundRule& rule, Comparison* comparison) {
  Verdict& v = comparison->verdict;
  v.shape_allowed = v.shape_allowed || rule.allow_shape;
  v.dtype_allowed = v.dtype_allowed || rule.allow_dtype;
  if (comparison->evidence != Evidence::kPayload) return;  // equal, or nothing to judge by
  const Metrics& m = comparison->metrics;
  const bool nan = rule.judges_nan(), inf = rule.judges_inf();
  v.special_allowed = (m.nan_mismatch == 0 || nan) && (m.inf_mismatch == 0 || inf);
  if (!rule.expect) {
    // The elements that are allowed to be special are outside of every bound.
    const uint64_t special = (nan ? m.nan_mismatch : 0) + (inf ? m.inf_mismatch : 0);
    if (special > 0 && m.outside() <= special) v.tolerance = Answer::kSame;
    return;
  }
  const bool holds = rule.expect->Holds(m);
  v.tolerance = holds ? Answer::kSame : Answer::kDiffers;
  if (!holds)
    comparison->notes.push_back(fmt::format("{}: {}", RuleText(rule), rule.expect->ValuesText(m)));
}

std::string RuleText(const BoundRule& rule) {
  return fmt::format("rule {}{}", rule.where,
                     rule.expect ? fmt::format(" '{}'", rule.expect->text()) : "");
}

}  // namespace tdump::compare
