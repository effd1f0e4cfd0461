// NamePrefix: what stands before all names of one side only. A checkpoint calls the weights of a
// model "model.layers.0.weight" or "module.layers.0.weight", a run "layers.0.weight".
#pragma once

#include <string>
#include <vector>

namespace tdump::compare::foreign {

// A plain value. At most one of the two is not empty; each ends with a dot.
struct NamePrefix {
  std::string dropped;  // before names here and not there
  std::string added;    // before names there and not here

  bool empty() const { return dropped.empty() && added.empty(); }
  // The name as the other side has it.
  std::string Applied(const std::string& name) const;
};

// Of `names`, the prefix with which most of `others` are met: more than without it, and more than
// half of the names it is for. Empty where there is none, or several do.
NamePrefix FindPrefix(const std::vector<std::string>& names,
                      const std::vector<std::string>& others);

}  // namespace tdump::compare::foreign
