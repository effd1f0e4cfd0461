// One rule, compiled: regexes ready, words as bit sets. Private to filters; see
// filters/compiled_plan.h.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/plan.h"
#include "filters/config.h"
#include "filters/settings.h"

namespace tdump::filters {

// A list of regexes, any of which has to match, and how often each did.
class PatternList {
 public:
  static Result<PatternList> Compile(const std::vector<std::string>& patterns);
  bool empty() const { return regexes_.empty(); }
  // Bit i of `hits`: pattern i matches one of `subjects` (patterns beyond 64 share the last bit).
  // Empty list: all match.
  bool Matches(const std::vector<std::string>& subjects, uint64_t* hits,
               const std::function<void(const Regex&, const std::string&)>& gave_up) const;
  bool MatchesAny(std::string_view subject) const noexcept;
  const std::vector<Regex>& regexes() const { return regexes_; }

 private:
  std::vector<Regex> regexes_;
};

// What is left to decide per observation once a rule matched an operator.
// Plain data, read without a lock.
struct RuleMatcher {
  uint32_t filter_set = 0;  // bit in Decision::filter_sets
  uint32_t number = 0;      // of the rule in its set, from 1
  const Rule* rule = nullptr;
  PatternList name, arg, cls, op, kernel;
  uint32_t roles = 0;   // bit = Role
  uint32_t phases = 0;  // bit = Phase

  static Result<std::unique_ptr<RuleMatcher>> Compile(const Rule& rule, uint32_t filter_set,
                                                      uint32_t number);

  // Whether the rule may apply to operators of this kind, and to this leaf state.
  bool AppliesTo(OperatorKind kind) const;
  bool AppliesTo(OperatorKind kind, bool leaf) const;
  bool Wants(Role role, Phase phase) const {
    if ((roles >> static_cast<int>(role) & 1) == 0) return false;
    return IsGradient(role) ? phase == Phase::kBackward
                            : (phases >> static_cast<int>(phase) & 1) != 0;
  }
  bool Matches(const ObservationKey& key) const noexcept;
};

// The texts that `name` is searched in: the path, for a tap path/name, and the same of each alias.
std::vector<std::string> SearchedNames(const OperatorInfo& info);

}  // namespace tdump::filters
