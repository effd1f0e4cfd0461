#include "filters/use.h"

#include <algorithm>

namespace tdump::filters {
namespace {

constexpr size_t kMaxDepth = 64;

class UseChecker {
 public:
  UseChecker(const Config& config, Mistakes* mistakes) : config_(config), mistakes_(mistakes) {
    for (const auto& [name, rules] : config.filters) names_.push_back(name);
  }

  // Number of rules that `rules` stand for; a `use` counts too, so that lists of nothing but `use`
  // are bounded.
  size_t Count(const std::vector<Rule>& rules) {
    size_t total = 0;
    for (const Rule& rule : rules) total += rule.use.empty() ? 1 : 1 + CountOf(rule);
    return std::min(total, kMaxExpandedRules + 1);
  }

 private:
  size_t CountOf(const Rule& rule) {
    const Position at{rule.line, rule.column};
    const auto list = config_.filters.find(rule.use);
    if (list == config_.filters.end()) {
      mistakes_->Add(at, "use: no list '" + Printable(rule.use) + "' in 'filters'",
                     names_.empty() ? "a list of 'filters', which is empty" : "a name of 'filters'",
                     Nearest(rule.use, names_));
      return 0;
    }
    if (std::find(open_.begin(), open_.end(), rule.use) != open_.end()) {
      mistakes_->Add(at, "use: '" + Printable(rule.use) + "' uses itself", "lists that end");
      return 0;
    }
    if (open_.size() >= kMaxDepth) {
      mistakes_->Add(at, "use: nested deeper than " + std::to_string(kMaxDepth) + " lists");
      return 0;
    }
    if (const auto known = counts_.find(rule.use); known != counts_.end()) return known->second;
    open_.push_back(rule.use);
    const size_t count = Count(list->second);
    open_.pop_back();
    counts_[rule.use] = count;
    return count;
  }

  const Config& config_;
  Mistakes* mistakes_;
  std::vector<std::string> names_;
  std::vector<std::string> open_;
  std::map<std::string, size_t> counts_;
};

void Expand(const Config& config, const std::vector<Rule>& rules, uint32_t number, size_t depth,
            std::vector<ExpandedRule>* out) {
  for (const Rule& rule : rules) {
    const uint32_t own = number == 0 ? static_cast<uint32_t>(&rule - rules.data()) + 1 : number;
    if (rule.use.empty()) {
      if (out->size() < kMaxExpandedRules) out->push_back({&rule, own});
      continue;
    }
    const auto list = config.filters.find(rule.use);
    if (list != config.filters.end() && depth < kMaxDepth)
      Expand(config, list->second, own, depth + 1, out);
  }
}

}  // namespace

void CheckUses(const Config& config, Mistakes* mistakes) {
  UseChecker checker(config, mistakes);
  for (const auto& [name, rules] : config.filters) {
    Rule use;
    use.use = name;
    if (!rules.empty()) {
      use.line = rules.front().line;
      use.column = rules.front().column;
    }
    checker.Count({use});
  }
  for (const FilterSet& set : config.capture) {
    if (checker.Count(set.rules) <= kMaxExpandedRules) continue;
    mistakes->Add(
        {set.rules.front().line, set.rules.front().column},
        "capture: more than " + std::to_string(kMaxExpandedRules) + " rules, 'use' expanded");
  }
}

std::vector<ExpandedRule> ExpandUses(const Config& config, const FilterSet& set) {
  std::vector<ExpandedRule> out;
  Expand(config, set.rules, 0, 0, &out);
  return out;
}

}  // namespace tdump::filters
