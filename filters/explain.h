// Explain: why an operator is recorded, or is not. For people; decisions are made by
// filters/compiled_plan.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"
#include "core/types.h"
#include "filters/config.h"

namespace tdump::filters {

// What one rule has to say about the operator. `against`: the key that
// rules it out, "" when it may decide.
struct RuleVerdict {
  uint32_t filter_set = 0;
  uint32_t number = 0;  // in its set, from 1
  std::string text;
  std::string against;
};

// A rule that decides about one role and phase; `condition`: what of the tensor, the rank or the
// step it depends on, "" for always.
struct RoleVerdict {
  Role role = Role::kOutput;
  Phase phase = Phase::kForward;
  uint32_t filter_set = 0;
  uint32_t number = 0;
  std::string text;
  std::string condition;
  Parts level = kPartNone;
};

struct Explanation {
  std::vector<RuleVerdict> rules;  // in order of sets, then of rules
  // For each role and phase that any rule of the configuration keeps, in each set: the rules that
  // may decide, in order; the last one has no condition, or none decides at the end.
  std::vector<RoleVerdict> roles;
};

// Predicates are not called: they become conditions. `class_known`: an empty `info.cls` says that
// the operator has no class; else what asks for a class becomes a condition there. Error: a regex
// that does not compile.
Result<Explanation> Explain(const Config& config, const OperatorInfo& info,
                            bool class_known = false);

}  // namespace tdump::filters
