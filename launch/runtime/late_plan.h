// LatePlan: the Plan of a process that does not know its rank yet. It answers with the plan of the
// rank its launcher announced; where activation finds another rank (a process group without
// launcher variables), the plan of that rank takes its place before the first pass opens.
#pragma once

#include <atomic>

#include "filters/compiled_plan.h"

namespace tdump::launch {

// Thread-safe. Plans given to it live as long as the process.
class LatePlan final : public Plan {
 public:
  explicit LatePlan(filters::CompiledPlan* plan) : plan_(plan) {}
  void Replace(filters::CompiledPlan* plan) noexcept {
    plan_.store(plan, std::memory_order_release);
  }
  filters::CompiledPlan* get() const noexcept { return plan_.load(std::memory_order_acquire); }

  RuleId op(OperatorId op, const OperatorInfo& info, const void* subject) noexcept override {
    return get()->op(op, info, subject);
  }
  Decision observe(RuleId rule, const ObservationKey& key) const noexcept override {
    return get()->observe(rule, key);
  }
  bool wants(RuleId rule, Role role, Phase phase) const noexcept override {
    return get()->wants(rule, role, phase);
  }
  bool wants_calls(RuleId rule) const noexcept override { return get()->wants_calls(rule); }
  bool expects_calls(RuleId rule) const noexcept override { return get()->expects_calls(rule); }
  bool wants_kind(OperatorKind kind) const noexcept override { return get()->wants_kind(kind); }

 private:
  std::atomic<filters::CompiledPlan*> plan_;
};

}  // namespace tdump::launch
