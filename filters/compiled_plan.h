// CompiledPlan: the filter sets of a Config, ready to answer for one rank
// (core/plan.h says what is asked).
//
// How a decision is found:
//   1. op(): once per operator, every rule of every set is tried on what never changes (kind, leaf,
//      name, class, op, where). The rules that are left, in order, are the operator's candidates;
//      equal candidate lists share a RuleId.
//   2. observe(): in each set the first candidate that matches role, phase, arg, dtype, numel, call
//      and step decides; the parts of the sets are united.
// The signature is one more set, bit 63, of meta and hash: roles param and state the first time an
// operator's are seen, and the inputs of root modules (path ".").
//
// Which operators a rule applies to:
//   op given      ATen operators; `name` and `class` are those of the module around it
//   leaf: true    modules without children, taps, and ATen operators (where they are collected)
//   leaf: false   modules with children
//   neither       modules and taps
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "core/fork_mutex.h"
#include "core/plan.h"
#include "filters/atomic_table.h"
#include "filters/config.h"
#include "filters/predicate.h"
#include "filters/rule_matcher.h"

namespace tdump::filters {

inline constexpr uint64_t kSignatureSet = uint64_t{1} << 63;

// How many operators a rule matched. `selector` is empty, or the one
// regex of the rule that matched none.
struct RuleCount {
  uint32_t filter_set = 0;
  uint32_t rule = 0;  // number in its set, from 1
  std::string text;
  std::string selector;
  uint64_t matched = 0;
  bool off = false;  // keeps nothing
};

// Where kernels are collected nobody asked for modules but by a rule: the default one, as long as
// no file has it, goes.
void LeaveOutDefaultRule(Config* config);

// Thread-safe. On the hit path op() is two atomic loads; observe() and wants() take no lock.
class CompiledPlan final : public Plan {
 public:
  struct Options {
    int rank = 0;
    int world = 1;
    // Told once per distinct text, from whatever thread meets it: a predicate
    // that fails, a regex that gave up.
    std::function<void(const std::string&)> note;
  };
  // Copies `config`. Error: a regex that does not compile.
  static Result<std::unique_ptr<CompiledPlan>> Compile(const Config& config, Options options);
  ~CompiledPlan() override;

  RuleId op(OperatorId op, const OperatorInfo& info, const void* subject) noexcept override;
  Decision observe(RuleId rule, const ObservationKey& key) const noexcept override;
  bool wants(RuleId rule, Role role, Phase phase) const noexcept override;
  bool wants_calls(RuleId rule) const noexcept override;
  bool expects_calls(RuleId rule) const noexcept override;
  bool wants_kind(OperatorKind kind) const noexcept override;

  // Evaluates Python predicates from now on; nullptr: none (such rules match nothing). Forgets all
  // cached answers and counts. `host` outlives its use here.
  void SetPredicateHost(PredicateHost* host) noexcept;

  // One entry a rule, and one for each regex of a list of several that matched nothing. Rules that
  // are not for this rank are left out.
  std::vector<RuleCount> Counts() const;
  // Rules for this rank that matched no operator so far.
  std::vector<const RuleMatcher*> Unmatched() const;

  // What observe() goes through for one operator.
  struct Candidates {
    std::vector<const RuleMatcher*> rules;  // in order of sets, then of rules
    uint32_t wanted = 0;                    // bit WantedBit(role, phase): something can be kept
    uint32_t asked = 0;                     // the same without the signature
    bool signature_params = false;
    bool signature_inputs = false;
    bool operator==(const Candidates&) const = default;
  };
  static constexpr uint32_t WantedBit(Role role, Phase phase) {
    return 1u << (2 * static_cast<int>(role) + static_cast<int>(phase));
  }
  // Of an operator that need not be in any table, for explanations; neither cached nor counted.
  Candidates Explain(const OperatorInfo& info, const void* subject) const;

 private:
  // A rule that applies to an operator, and which of its patterns did (bit = pattern).
  struct Hit {
    size_t matcher = 0;
    uint64_t name = 0, cls = 0, op = 0, kernel = 0;
  };
  struct Tally {
    uint64_t matched = 0;
    uint64_t name = 0, cls = 0, op = 0, kernel = 0;
  };

  CompiledPlan(const Config& config, Options options);
  Status Build();
  std::vector<Hit> Try(const OperatorInfo& info, const void* subject) const;
  bool Satisfies(const Rule& rule, const OperatorInfo& info, const void* subject) const;
  Candidates Select(const std::vector<Hit>& hits, const OperatorInfo& info) const;
  RuleId Decide(OperatorId op, const OperatorInfo& info, const void* subject);
  RuleId Intern(const Candidates& candidates);
  // The first time for this topic.
  void NoteOnce(const std::string& topic, const std::string& text) const;

  const Config config_;
  const Options options_;
  std::vector<std::unique_ptr<RuleMatcher>> matchers_;  // by set, then by rule
  std::atomic<PredicateHost*> python_{nullptr};

  AtomicTable<RuleId> decided_;                // by OperatorId: RuleId + 1; 0 = not decided
  AtomicTable<const Candidates*> candidates_;  // by RuleId
  mutable ForkMutex mutex_;                    // guards what follows
  std::vector<std::unique_ptr<Candidates>> owned_;
  std::vector<Tally> tallies_;  // beside matchers_
  uint64_t epoch_ = 0;          // counts SetPredicateHost
  mutable ForkMutex note_mutex_;
  mutable std::set<std::string> noted_;
};

}  // namespace tdump::filters
