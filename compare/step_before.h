// StepBefore: what a step holds of each parameter (its values, its gradients, what an optimizer
// keeps of it), and whether that was within its bounds: what the next step is explained by
// (compare/optimizer_updates.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "compare/pairing.h"
#include "compare/roles.h"
#include "compare/step_view.h"

namespace tdump::compare {

struct Outcome;
struct PassDiff;

struct StepBefore {
  struct Entry {
    RecordIds ids;
    uint64_t order = 0;  // of gradients: later ones are of later micro-batches
    bool within = false;
  };
  const StepView* a = nullptr;
  const StepView* b = nullptr;
  std::vector<Entry> entries;
  std::shared_ptr<const void> owner;  // of the views

  // Whether a record, or the outcome of one, is among them.
  static bool Has(Role role, bool of_optimizer) {
    return role == Role::kParam || role == Role::kParamGrad || of_optimizer;
  }
  static bool IsWithin(const Outcome& outcome);
  // Null: nothing in it can explain anything.
  static std::shared_ptr<const StepBefore> Of(std::shared_ptr<const PassDiff> pass);
};

// Whether a pass holds what a later one can be explained by.
bool MayExplainUpdates(const PassDiff& pass);

}  // namespace tdump::compare
