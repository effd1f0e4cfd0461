// StepParts: what a step holds of each parameter: its values, its gradients and what an optimizer
// keeps of it, by the ranks that have it. Where ranks hold copies that differ each is told from its
// own rank's; it is not known where nothing tells which those are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compare/step_before.h"
#include "compare/weight_update.h"

namespace tdump::compare {

// "exp_avg" of "weight.exp_avg".
inline std::string StateIn(const std::string& arg) { return arg.substr(arg.find('.') + 1); }

// Not thread-safe. The views outlive it.
class StepParts {
 public:
  // The record that a part is of, on the ranks that hold it.
  struct Place {
    std::string parameter;   // ParameterIn
    std::string arg;         // of the record
    int32_t rank_a, rank_b;  // kAllRanks: not one alone
  };
  // None: it cannot be read.
  static std::optional<Place> PlaceOf(const StepView& a, const StepView& b, const RecordIds& ids);

  StepParts(const StepView* a, const StepView* b, std::vector<StepBefore::Entry> entries);

  struct Part {
    std::string name;                // "exp_avg"; of the gradient ""
    const StepBefore::Entry* entry;  // null: not known
  };
  // The parameter itself, or one number that is kept of it; null: not known.
  const StepBefore::Entry* Find(const Place& place) const;
  // Whether a number of that name is kept of it, "mu_product".
  bool Has(const Place& place, const std::string& name) const;
  // All that is kept of it.
  std::vector<Part> KeptOf(const Place& place) const;
  // The gradient, as it was last recorded; none: of no rank.
  std::optional<Part> GradientOf(const Place& place) const;
  // Those that have the shape of `like`, opened. None: one is not known, or outside its bound while
  // these do not count.
  std::optional<std::vector<WeightUpdate::Part>> Open(const std::vector<Part>& parts,
                                                      const BothSides& like,
                                                      bool may_be_outside) const;
  // Error: it cannot be read.
  Result<std::unique_ptr<BothSides>> Open(const StepBefore::Entry& entry) const {
    return BothSides::Open(*a_, *b_, entry.ids);
  }

 private:
  struct Copy {
    Place place;
    const StepBefore::Entry* entry;
  };
  struct Parameter {
    std::vector<Copy> weights, kept;
    std::vector<Copy> gradients;  // each rank's last
  };
  static const StepBefore::Entry* Own(const std::vector<Copy>& copies, const Place& of);
  // Those of later micro-batches are what had been added up by then.
  static void AddGradient(const Copy& copy, std::vector<Copy>* gradients);
  const Parameter* ParameterAt(const Place& place) const;

  const StepView* a_;
  const StepView* b_;
  std::vector<StepBefore::Entry> entries_;
  std::unordered_map<std::string, Parameter> parameters_;
};

}  // namespace tdump::compare
