// BoundRules: what a user asks of operators by name, instead of the default bounds (`--bounds`).
// The first rule that matches decides alone.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compare/compute.h"
#include "compare/predicate.h"
#include "compare/verdict.h"

namespace tdump::compare {

// One rule. NaN, infinities, shapes and dtypes are judged as without it unless the rule names them:
// in `expect` (nan_mismatch, inf_mismatch) or among what it allows.
struct BoundRule {
  std::function<bool(const std::string& name)> matches;  // the plain name; empty: every one
  std::vector<Role> roles;                               // empty: every one
  std::optional<Predicate> expect;                       // none: the default bound
  std::optional<Precision> compute;                      // for the default bound
  bool allow_shape = false, allow_dtype = false, allow_nan = false, allow_inf = false;
  std::string where;  // "bounds.yaml:7"

  // Whether NaN, or infinities, may be on one side only, or `expect` says which may.
  bool judges_nan() const { return allow_nan || (expect && expect->Names("nan_mismatch")); }
  bool judges_inf() const { return allow_inf || (expect && expect->Names("inf_mismatch")); }
};

// Thread-safe once filled.
class BoundRules {
 public:
  void Add(BoundRule rule) { rules_.push_back(std::move(rule)); }
  bool empty() const { return rules_.empty(); }
  // nullptr: none matches.
  const BoundRule* Find(const std::string& name, Role role) const;
  // The number of a rule that Find gave, -1 for none, and back.
  int64_t IndexOf(const BoundRule* rule) const {
    return rule == nullptr ? -1 : rule - rules_.data();
  }
  const BoundRule* At(int64_t index) const {
    const bool known = index >= 0 && index < static_cast<int64_t>(rules_.size());
    return known ? &rules_[static_cast<size_t>(index)] : nullptr;
  }

 private:
  std::vector<BoundRule> rules_;
};

// What the rule makes of a comparison whose values were measured or are known to be equal.
void ApplyRule(const BoundRule& rule, Comparison* comparison);

// "rule bounds.yaml:7: sqnr_db >= 30".
std::string RuleText(const BoundRule& rule);

}  // namespace tdump::compare
