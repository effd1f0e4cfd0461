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

  // Number of rules that `rules` stand for; a `use` counts too, so that lists
  // of nothing but `use` are bounded.
  size_t Count(const std::vector<Rule>& rules) { return Measure(rules).rules; }

 private:
  struct Size {
    size_t rules = 0;
    size_t depth = 0;  // of lists below, 0 = no `use`
  };

  Size Measure(const std::vector<Rule>& rules) {
    Size size;
    for (const Rule& rule : rules) {
      const Size used = rule.use.empty() ? Size{} : SizeOf(rule);
      size.rules = std::min(size.rules + 1 + used.rules, kMaxExpandedRules + 1);
      size.depth = std::max(size.depth, used.depth);
    }
    return size;
  }

  // Of the list that the rule uses.
  Size SizeOf(const Rule& rule) {
    const Position at{rule.line, rule.column};
    const auto list = config_.filters.find(rule.use);
    if (list == config_.filters.end()) {
      mistakes_->Add(at, "use: no list '" + Printable(rule.use) + "' in 'filters'",
                     names_.empty() ? "a list of 'filters', which is empty" : "a name of 'filters'",
                     Nearest(rule.use, names_));
      return {};
    }
    if (std::find(open_.begin(), open_.end(), rule.use) != open_.end()) {
      mistakes_->Add(at, "use: '" + Printable(rule.use) + "' uses itself", "lists that end");
      return {};
    }
    if (const auto known = sizes_.find(rule.use); known != sizes_.end()) return known->second;
    Size size;
    if (open_.size() < kMaxDepth) {
      open_.push_back(rule.use);
      size = Measure(list->second);
      open_.pop_back();
    } else {
      size.depth = kMaxDepth;  // deeper ones are not looked into
    }
    if (++size.depth > kMaxDepth) {
      mistakes_->Add(at, "use: nested deeper than " + std::to_string(kMaxDepth) + " lists");
      size.depth = 0;  // told once
    }
    sizes_[rule.use] = size;
    return size;
  }

  const Config& config_;
  Mistakes* mistakes_;
  std::vector<std::string> names_;
  std::vector<std::string> open_;
  std::map<std::string, Size> sizes_;
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
