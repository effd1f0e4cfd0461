// Plan: filter sets compiled for one rank. Answers, per operator once and per observation each
// time, what to keep. Implemented by filters (filters/compiled_plan.h). Pure: the same question
// always has the same answer.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/types.h"

namespace tdump {

// What every observation of an operator has in common: which rules can still match. 0 = nothing of
// it is ever kept. Collectors cache it per OperatorId.
using RuleId = uint32_t;
inline constexpr RuleId kNoRule = 0;

// What a rule sees of an observation. `step` is relative to the first
// selected step (rules may narrow steps).
struct ObservationKey {
  Role role = Role::kOutput;
  Phase phase = Phase::kForward;
  bool recompute = false;  // the call is made anew while backward runs
  std::string_view arg;
  std::string_view dtype;
  uint64_t numel = 0;
  uint64_t call = 0;
  uint64_t step = 0;
  bool first_state = false;  // parameters and buffers: those of this operator for the first time
};

// Elements begin, begin + step, ... before end, of one dimension. Negative bounds count from its
// end.
struct SliceRange {
  int64_t begin = 0;
  int64_t end = INT64_MAX;
  int64_t step = 1;
  bool operator==(const SliceRange&) const = default;
};

enum class Compression : uint8_t { kNone = 0, kZstd = 1 };

// What to keep of one observation. The slice lives as long as the plan.
struct Keep {
  Keep(Parts kept = kPartNone) : parts(kept) {}  // NOLINT: a set of parts is the usual case
  Parts parts;
  uint64_t sample = 0;                // elements, with kPartSample
  std::span<const SliceRange> slice;  // with kPartSlice; dimensions beyond it are kept whole
  Compression compress = Compression::kNone;
};

struct Decision : Keep {
  uint64_t filter_sets = 0;  // bit i: filter set i asked for it
  std::string_view dims;     // the rule's annotation; lives as long as the plan
  uint64_t max_records = 0;  // per operator and step, 0 = no limit
};

class Plan {
 public:
  virtual ~Plan() = default;

  // `subject` is the live object a predicate may look at (a borrowed PyObject* of the module, or
  // nullptr). Evaluates names and predicates once; the result is cached per operator id.
  // Thread-safe, noexcept: a predicate that throws counts as no match and is told once.
  virtual RuleId op(OperatorId op, const OperatorInfo& info, const void* subject) noexcept = 0;
  // Pure and lock-free.
  virtual Decision observe(RuleId rule, const ObservationKey& key) const noexcept = 0;
  // Whether any rule of the operator can ask for this role and phase at all:
  // lets a collector skip gathering it.
  virtual bool wants(RuleId rule, Role role, Phase phase) const noexcept = 0;
  // Whether a call of the operator can give a record. False when only what belongs to no call is
  // wanted (param, param_grad, state): then no call is opened and the coverage does not expect the
  // operator to be called. With the signature on, every module is wanted for its parameters, most
  // of them for nothing else.
  virtual bool wants_calls(RuleId rule) const noexcept {
    for (Role role : {Role::kInput, Role::kOutput, Role::kBefore, Role::kAfter, Role::kGradInput,
                      Role::kGradOutput}) {
      if (wants(rule, role, Phase::kForward) || wants(rule, role, Phase::kBackward)) return true;
    }
    return false;
  }
  // Whether the user's own rules, not only the signature, want calls of the operator: the coverage
  // expects it to be called.
  virtual bool expects_calls(RuleId rule) const noexcept { return wants_calls(rule); }
  // Whether any rule of the whole plan can match an operator of this kind (e.g. ATen callbacks are
  // not installed else).
  virtual bool wants_kind(OperatorKind kind) const noexcept = 0;
};

}  // namespace tdump
