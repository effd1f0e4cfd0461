// StepRule: what marks the steps of a job, from `steps.boundary`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/status.h"

namespace tdump::coordinator {

enum class StepRuleKind : uint8_t { kAuto, kOptimizer, kBackward, kForward, kOp, kExplicit };

struct StepRule {
  StepRuleKind kind = StepRuleKind::kAuto;
  std::string pattern;                            // of forward:REGEX and op:REGEX, as written
  std::function<bool(std::string_view)> matches;  // empty: everything matches
};

// Compiles a regular expression with search semantics. The configuration
// passes the one its other patterns use.
using PatternCompiler =
    std::function<Result<std::function<bool(std::string_view)>>(const std::string& pattern)>;
Result<std::function<bool(std::string_view)>> CompileStdRegex(const std::string& pattern);

// "auto" | "optimizer" | "backward" | "forward[:REGEX]" | "op:REGEX" | "explicit".
Result<StepRule> ParseStepRule(const std::string& text,
                               const PatternCompiler& compile = CompileStdRegex);

}  // namespace tdump::coordinator
