#include "launch/tdump_run/explain.h"

#include <fmt/format.h>

#include "filters/explain.h"
#include "filters/schema.h"
#include "filters/settings.h"

namespace tdump::launch {
namespace {

using filters::Config;

OperatorInfo OperatorNamed(const std::string& name) {
  OperatorInfo info;
  const size_t slash = name.find('/');
  info.path = name.substr(0, slash);
  if (slash == std::string::npos) return info;
  info.op = name.substr(slash + 1);
  info.kind = info.op.find("::") != std::string::npos ? OperatorKind::kAten : OperatorKind::kTap;
  return info;
}

std::string RuleName(const Config& config, uint32_t set, uint32_t number) {
  const std::string& name = config.capture[set].name;
  return name.empty() ? fmt::format("rule {}", number) : fmt::format("{} rule {}", name, number);
}

std::string Rules(const Config& config, const filters::Explanation& explanation) {
  std::string text;
  for (const filters::RuleVerdict& rule : explanation.rules) {
    text += fmt::format("  {:<8} {}{}\n", RuleName(config, rule.filter_set, rule.number), rule.text,
                        rule.against.empty() ? "   applies" : "   does not apply: " + rule.against);
  }
  return text.empty() ? "  no rules\n" : text;
}

std::string Roles(const Config& config, const filters::Explanation& explanation) {
  std::string text;
  for (const filters::RoleVerdict& role : explanation.roles) {
    text +=
        fmt::format("  {:<12} {:<9} {:<5} {}{}\n", ToString(role.role), ToString(role.phase),
                    filters::PrintLevel(role.level), RuleName(config, role.filter_set, role.number),
                    role.condition.empty() ? "" : ", if " + role.condition);
  }
  return text.empty() ? "  nothing: no rule decides for it\n" : text;
}

std::string Signature(const Config& config, const OperatorInfo& info) {
  if (!config.signature || info.kind != OperatorKind::kModule) return "";
  std::string text = "  param        forward   hash  signature, in the first recorded step\n";
  if (info.path == ".")
    text += "  input        forward   hash  signature, in every recorded step\n";
  return text;
}

Result<std::string> Section(const Config& config, const OperatorInfo& info) {
  TDUMP_ASSIGN_OR_RETURN(const filters::Explanation explanation, filters::Explain(config, info));
  const std::string ranks =
      config.ranks.is_all() ? "all ranks" : "ranks " + config.ranks.ToString();
  return fmt::format("{}kept in steps {} on {}:\n{}{}", Rules(config, explanation),
                     config.steps.ToString(), ranks, Roles(config, explanation),
                     Signature(config, info));
}

// A module may or may not have child modules; rules with `leaf` tell the two apart.
Result<std::string> ModuleSections(const Config& config, OperatorInfo info) {
  info.leaf = true;
  TDUMP_ASSIGN_OR_RETURN(const std::string leaf, Section(config, info));
  info.leaf = false;
  TDUMP_ASSIGN_OR_RETURN(const std::string parent, Section(config, info));
  if (leaf == parent) return ": a module\n" + leaf;
  return ": a module without child modules\n" + leaf + "\n" + info.path +
         ": a module with child modules\n" + parent;
}

}  // namespace

Result<std::string> ExplainOperator(const EffectiveConfig& settings, const Options& options) {
  if (!options.from.empty()) {
    return Unsupported(
        "--explain NAME --from RUN is not in this version; without --from the class is not known, "
        "and rules with 'class' are shown as conditions");
  }
  OperatorInfo info = OperatorNamed(filters::Printable(options.explain));
  if (info.kind == OperatorKind::kModule) {
    TDUMP_ASSIGN_OR_RETURN(const std::string sections, ModuleSections(settings.config, info));
    return info.path + sections;
  }
  info.leaf = true;
  TDUMP_ASSIGN_OR_RETURN(const std::string section, Section(settings.config, info));
  const char* kind = info.kind == OperatorKind::kAten ? "an ATen operator" : "a tap";
  return fmt::format("{}/{}: {}\n{}", info.path, info.op, kind, section);
}

}  // namespace tdump::launch
