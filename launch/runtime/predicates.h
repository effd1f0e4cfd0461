// Predicates of the configuration, evaluated by the collector that can (the Python one), which is
// known only when it has started.
#pragma once

#include "core/runtime.h"
#include "filters/predicate.h"

namespace tdump::launch {

// Thread-safe as far as `evaluate` is. An error is the predicate's own text.
class RuntimePredicates final : public filters::PredicateHost {
 public:
  explicit RuntimePredicates(PredicateFn evaluate) : evaluate_(evaluate) {}
  Result<bool> Evaluate(const std::string& spec, const OperatorInfo& info,
                        const void* subject) override;

 private:
  PredicateFn evaluate_;
};

}  // namespace tdump::launch
