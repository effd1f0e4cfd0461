#include "filters/explain.h"

#include <memory>

#include "filters/rule_matcher.h"
#include "filters/schema.h"
#include "filters/settings.h"
#include "filters/use.h"

namespace tdump::filters {
namespace {

struct Candidate {
  std::unique_ptr<RuleMatcher> matcher;
  std::string condition;
};

std::string KeyText(const char* key, const std::vector<std::string>& patterns) {
  return std::string(key) + ": " +
         (patterns.size() == 1 ? YamlScalar(patterns[0]) : PrintTexts(patterns));
}

bool Found(const PatternList& list, const std::vector<std::string>& subjects) {
  uint64_t hits = 0;
  return list.Matches(subjects, &hits, [](const Regex&, const std::string&) {});
}

bool IsCollected(const Config& config, OperatorKind kind) {
  if (kind == OperatorKind::kAten) return config.aten;
  if (kind == OperatorKind::kKernel) return config.kernels != KernelMode::kOff;
  return (kind == OperatorKind::kTap ? config.taps : config.modules) != Tri::kOff;
}

// The key that rules the operator out, "" for none.
std::string Against(const Config& config, const RuleMatcher& matcher, const OperatorInfo& info,
                    bool class_known) {
  const Rule& rule = *matcher.rule;
  if (!IsCollected(config, info.kind)) return "'collect' leaves out operators of this kind";
  if (!matcher.AppliesTo(info.kind, info.leaf)) {
    if (!rule.op.empty() && info.kind != OperatorKind::kAten) return KeyText("op", rule.op);
    if (!rule.kernel.empty() && info.kind != OperatorKind::kKernel)
      return KeyText("kernel", rule.kernel);
    return std::string("leaf: ") + (rule.has_leaf ? (rule.leaf ? "true" : "false") : "any");
  }
  if (!Found(matcher.name, SearchedNames(info))) return KeyText("name", rule.name);
  if (!Found(matcher.op, {info.op})) return KeyText("op", rule.op);
  if (!Found(matcher.kernel, {info.op})) return KeyText("kernel", rule.kernel);
  if (class_known && !Found(matcher.cls, {info.cls})) return KeyText("class", rule.cls);
  return "";
}

// What else must hold for the rule to decide.
std::string ConditionOf(const Rule& rule, bool class_known) {
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (!class_known && !rule.cls.empty()) add(KeyText("class", rule.cls));
  if (!rule.where.empty()) add("where: " + rule.where);
  if (!rule.arg.empty()) add(KeyText("arg", rule.arg));
  if (!rule.dtype.empty()) add(KeyText("dtype", rule.dtype));
  if (!rule.numel.is_all()) add("numel: " + PrintSpec(rule.numel));
  if (!rule.call.is_all()) add("call: " + PrintSpec(rule.call));
  if (!rule.steps.is_all()) add("steps: " + PrintSpec(rule.steps));
  if (!rule.ranks.is_all()) add("ranks: " + PrintSpec(rule.ranks));
  return text;
}

// Bit 2 * role + phase: some rule keeps it.
uint32_t Kept(const Config& config) {
  uint32_t kept = 0;
  for (const FilterSet& set : config.capture) {
    for (const ExpandedRule& expanded : ExpandUses(config, set)) {
      if (expanded.rule->level == kPartNone) continue;
      for (Role role : expanded.rule->role) {
        if (IsGradient(role)) {
          kept |= 1u << (2 * static_cast<int>(role) + static_cast<int>(Phase::kBackward));
          continue;
        }
        const bool of_step = role == Role::kParam || role == Role::kState;
        for (Phase phase : expanded.rule->phase) {
          if (of_step && phase != Phase::kForward) continue;  // which no rule is asked about
          kept |= 1u << (2 * static_cast<int>(role) + static_cast<int>(phase));
        }
      }
    }
  }
  return kept;
}

void Decide(const std::vector<Candidate>& candidates, Role role, Phase phase, uint32_t filter_set,
            std::vector<RoleVerdict>* out) {
  for (const Candidate& candidate : candidates) {
    const RuleMatcher& matcher = *candidate.matcher;
    if (matcher.filter_set != filter_set || !matcher.Wants(role, phase)) continue;
    out->push_back({role, phase, filter_set, matcher.number, PrintRule(*matcher.rule),
                    candidate.condition, matcher.rule->level});
    if (candidate.condition.empty()) return;
  }
}

}  // namespace

Result<Explanation> Explain(const Config& config, const OperatorInfo& info, bool class_known) {
  class_known = class_known || !info.cls.empty();
  Explanation explanation;
  std::vector<Candidate> candidates;
  for (size_t set = 0; set < config.capture.size(); ++set) {
    for (const ExpandedRule& expanded : ExpandUses(config, config.capture[set])) {
      TDUMP_ASSIGN_OR_RETURN(
          auto matcher,
          RuleMatcher::Compile(*expanded.rule, static_cast<uint32_t>(set), expanded.number));
      const std::string against = Against(config, *matcher, info, class_known);
      explanation.rules.push_back(
          {matcher->filter_set, matcher->number, PrintRule(*expanded.rule), against});
      if (!against.empty()) continue;
      candidates.push_back({std::move(matcher), ConditionOf(*expanded.rule, class_known)});
    }
  }
  const uint32_t kept = Kept(config);
  for (int bit = 0; bit < 2 * kRoleCount; ++bit) {
    if ((kept >> bit & 1) == 0) continue;
    for (size_t set = 0; set < config.capture.size(); ++set) {
      Decide(candidates, static_cast<Role>(bit / 2), static_cast<Phase>(bit % 2),
             static_cast<uint32_t>(set), &explanation.roles);
    }
  }
  return explanation;
}

}  // namespace tdump::filters
