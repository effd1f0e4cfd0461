#include "filters/rule_matcher.h"

#include <algorithm>

#include "core/key.h"

namespace tdump::filters {

Result<PatternList> PatternList::Compile(const std::vector<std::string>& patterns) {
  PatternList list;
  for (const std::string& pattern : patterns) {
    TDUMP_ASSIGN_OR_RETURN(Regex regex, Regex::Compile(pattern));
    list.regexes_.push_back(std::move(regex));
  }
  return list;
}

bool PatternList::Matches(
    const std::vector<std::string>& subjects, uint64_t* hits,
    const std::function<void(const Regex&, const std::string&)>& gave_up) const {
  *hits = 0;
  if (regexes_.empty()) return true;
  for (size_t i = 0; i < regexes_.size(); ++i) {
    for (const std::string& subject : subjects) {
      const Regex::Match match = regexes_[i].Search(subject);
      if (match == Regex::Match::kGaveUp) gave_up(regexes_[i], subject);
      if (match == Regex::Match::kYes) *hits |= uint64_t{1} << std::min<size_t>(i, 63);
    }
  }
  return *hits != 0;
}

bool PatternList::MatchesAny(std::string_view subject) const noexcept {
  if (regexes_.empty()) return true;
  return std::any_of(regexes_.begin(), regexes_.end(), [&](const Regex& regex) {
    return regex.Search(subject) == Regex::Match::kYes;
  });
}

Result<std::unique_ptr<RuleMatcher>> RuleMatcher::Compile(const Rule& rule, uint32_t filter_set,
                                                          uint32_t number) {
  auto matcher = std::make_unique<RuleMatcher>();
  matcher->filter_set = filter_set;
  matcher->number = number;
  matcher->rule = &rule;
  TDUMP_ASSIGN_OR_RETURN(matcher->name, PatternList::Compile(rule.name));
  TDUMP_ASSIGN_OR_RETURN(matcher->arg, PatternList::Compile(rule.arg));
  TDUMP_ASSIGN_OR_RETURN(matcher->cls, PatternList::Compile(rule.cls));
  TDUMP_ASSIGN_OR_RETURN(matcher->op, PatternList::Compile(rule.op));
  TDUMP_ASSIGN_OR_RETURN(matcher->kernel, PatternList::Compile(rule.kernel));
  for (Role role : rule.role) matcher->roles |= 1u << static_cast<int>(role);
  for (Phase phase : rule.phase) matcher->phases |= 1u << static_cast<int>(phase);
  return matcher;
}

bool RuleMatcher::AppliesTo(OperatorKind kind) const {
  const bool leaves = rule->has_leaf && rule->leaf;
  if ((kind == OperatorKind::kKernel) == kernel.empty()) return false;
  switch (kind) {
    case OperatorKind::kModule:
      return op.empty();
    case OperatorKind::kTap:
      return op.empty() && (!rule->has_leaf || rule->leaf);
    case OperatorKind::kAten:
      return op.empty() ? leaves : (!rule->has_leaf || rule->leaf);
    case OperatorKind::kKernel:
      return op.empty() && (!rule->has_leaf || rule->leaf);
    case OperatorKind::kCollective:
      return false;
  }
  return false;
}

bool RuleMatcher::AppliesTo(OperatorKind kind, bool leaf) const {
  return AppliesTo(kind) &&
         (kind != OperatorKind::kModule || !rule->has_leaf || rule->leaf == leaf);
}

bool RuleMatcher::Matches(const ObservationKey& key) const noexcept {
  if (!Wants(key.role, key.phase)) return false;
  if (!rule->steps.Contains(key.step) || !rule->call.Contains(key.call) ||
      !rule->numel.Contains(key.numel))
    return false;
  const auto& dtypes = rule->dtype;
  if (!dtypes.empty() && std::find(dtypes.begin(), dtypes.end(), key.dtype) == dtypes.end())
    return false;
  return arg.empty() || arg.MatchesAny(key.arg);
}

std::vector<std::string> SearchedNames(const OperatorInfo& info) {
  const std::string_view op =
      info.kind == OperatorKind::kTap ? std::string_view(info.op) : std::string_view();
  std::vector<std::string> names = {PlainName(info.root, info.path, op)};
  for (const std::string& alias : info.aliases) names.push_back(PlainName(info.root, alias, op));
  return names;
}

}  // namespace tdump::filters
