// OptimizerStates: which records of a pass are what an optimizer keeps of which parameter, and how
// they are made of that parameter's gradients.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "compare/explain.h"
#include "compare/pass_diff.h"

namespace tdump::compare {

// By the name that optimizers give it, "exp_avg_sq". kNone: steps, whatever the gradients are.
StateKind StateKindOf(std::string_view name);

// Reads the records of gradients and of what optimizers keep where any of the latter differs.
class OptimizerStates {
 public:
  explicit OptimizerStates(const PassDiff& pass);

  // Whether the outcome is of what is made of gradients. A number beside a parameter that is none
  // counts something else.
  bool IsOfGradients(uint32_t outcome) const;
  // Adds to an outcome's sample what is known of its parameter.
  void Complete(uint32_t outcome, Sample* sample) const;

 private:
  struct Place {
    uint64_t parameter = 0;
    StateKind state = StateKind::kNone;
    bool number = false;  // without dimensions
  };
  std::unordered_map<uint32_t, Place> places_;  // by outcome
};

}  // namespace tdump::compare
