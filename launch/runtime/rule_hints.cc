#include "launch/runtime/rule_hints.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "coordinator/coverage_names.h"
#include "coordinator/rule_hint.h"
#include "core/key.h"
#include "core/text.h"

namespace tdump::launch {
namespace {

constexpr size_t kMostNamed = 4;
constexpr size_t kMostClasses = 1000;

std::string Listed(const std::vector<std::string>& names) {
  return coordinator::Listed(names, kMostNamed);
}

bool Names(const filters::RuleMatcher& rule, const OperatorInfo& info) {
  const std::vector<std::string> names = filters::SearchedNames(info);
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return rule.name.MatchesAny(name); });
}

// Modules right below `parent`, folded.
std::vector<std::string> ChildrenOf(const OperatorInfo& parent, const OperatorTable& operators) {
  const std::string prefix = parent.path == "." ? "" : parent.path + ".";
  std::vector<std::string> children;
  for (OperatorId id = 0; id < operators.size(); ++id) {
    const OperatorInfo& info = operators.Get(id);
    const std::string_view path = info.path;
    if (info.kind != OperatorKind::kModule || info.root != parent.root || path == ".") continue;
    if (path.size() <= prefix.size() || !path.starts_with(prefix)) continue;
    if (path.find('.', prefix.size()) == std::string_view::npos)
      children.push_back(PlainName(info.root, info.path, ""));
  }
  return coordinator::FoldNames(children);
}

// "" where the rule asks for no leaves, or names no module that has children.
std::string NoLeaf(const filters::RuleMatcher& rule, const OperatorTable& operators) {
  const bool leaves = rule.AppliesTo(OperatorKind::kModule, true);
  if (rule.name.empty() || !leaves || rule.AppliesTo(OperatorKind::kModule, false)) return "";
  for (OperatorId id = 0; id < operators.size(); ++id) {
    const OperatorInfo& info = operators.Get(id);
    const bool parent = info.kind == OperatorKind::kModule && !info.leaf;
    if (!parent || !Names(rule, info) || !rule.cls.MatchesAny(info.cls)) continue;
    const std::vector<std::string> children = ChildrenOf(info, operators);
    return fmt::format("{} is no leaf{}; without `leaf: true` the rule takes it",
                       Printable(PlainName(info.root, info.path, "")),
                       children.empty() ? "" : ": its children are " + Listed(children));
  }
  return "";
}

// "" where the rule names no classes, or one of them is there.
std::string NearClasses(const filters::RuleMatcher& rule, const OperatorTable& operators) {
  std::set<std::string> classes;
  for (OperatorId id = 0; id < operators.size() && classes.size() < kMostClasses; ++id) {
    const OperatorInfo& info = operators.Get(id);
    if (info.kind == OperatorKind::kModule && !info.cls.empty()) classes.insert(info.cls);
  }
  if (rule.cls.empty() || classes.empty()) return "";
  if (std::any_of(classes.begin(), classes.end(),
                  [&](const std::string& cls) { return rule.cls.MatchesAny(cls); }))
    return "";
  std::string patterns;
  for (const filters::Regex& regex : rule.cls.regexes())
    patterns += (patterns.empty() ? "'" : ", '") + Printable(regex.pattern()) + "'";
  std::vector<std::string> near = coordinator::NearNames(
      rule.cls.regexes().front().pattern(), {classes.begin(), classes.end()}, kMostNamed);
  const bool all = near.empty();
  if (all) near.assign(classes.begin(), classes.end());
  return fmt::format("no module is of class {}. {}: {}", patterns, all ? "The classes are" : "Near",
                     Listed(near));
}

}  // namespace

std::vector<std::string> HintsOfUnmatched(const filters::CompiledPlan& plan,
                                          const OperatorTable& operators) {
  std::vector<std::string> hints;
  for (const filters::RuleMatcher* rule : plan.Unmatched()) {
    if (rule->rule->level == kPartNone) continue;  // keeps nothing, and so loses nothing
    std::string hint = NoLeaf(*rule, operators);
    if (hint.empty()) hint = NearClasses(*rule, operators);
    if (!hint.empty()) hints.push_back(coordinator::RuleHint(rule->filter_set, rule->number, hint));
  }
  return hints;
}

}  // namespace tdump::launch
