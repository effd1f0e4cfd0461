#include "coordinator/step_rule.h"

#include <memory>
#include <regex>

namespace tdump::coordinator {

Result<std::function<bool(std::string_view)>> CompileStdRegex(const std::string& pattern) {
  try {
    auto regex = std::make_shared<std::regex>(pattern);
    return std::function<bool(std::string_view)>([regex](std::string_view text) {
      return std::regex_search(text.begin(), text.end(), *regex);
    });
  } catch (const std::regex_error& error) {
    return InvalidArgument("regular expression '" + pattern + "': " + error.what());
  }
}

Result<StepRule> ParseStepRule(const std::string& text, const PatternCompiler& compile) {
  StepRule rule;
  const size_t colon = text.find(':');
  const std::string word = text.substr(0, colon);
  if (colon != std::string::npos) rule.pattern = text.substr(colon + 1);
  if (word == "auto") {
    rule.kind = StepRuleKind::kAuto;
  } else if (word == "optimizer") {
    rule.kind = StepRuleKind::kOptimizer;
  } else if (word == "backward") {
    rule.kind = StepRuleKind::kBackward;
  } else if (word == "forward") {
    rule.kind = StepRuleKind::kForward;
  } else if (word == "op") {
    rule.kind = StepRuleKind::kOp;
  } else if (word == "explicit") {
    rule.kind = StepRuleKind::kExplicit;
  } else {
    return InvalidArgument(
        "boundary '" + text +
        "': expected auto, optimizer, backward, forward[:REGEX], op:REGEX or explicit");
  }
  const bool takes_pattern = rule.kind == StepRuleKind::kForward || rule.kind == StepRuleKind::kOp;
  if (colon != std::string::npos && (!takes_pattern || rule.pattern.empty())) {
    return InvalidArgument(
        "boundary '" + text + "': expected " +
        (takes_pattern ? "a regular expression after ':'" : "nothing after '" + word + "'"));
  }
  if (rule.kind == StepRuleKind::kOp && rule.pattern.empty()) {
    return InvalidArgument("boundary 'op': expected op:REGEX");
  }
  if (!rule.pattern.empty()) {
    TDUMP_ASSIGN_OR_RETURN(rule.matches, compile(rule.pattern));
  }
  return rule;
}

}  // namespace tdump::coordinator
