// UpdateHints: what to do where a parameter parts on the way by an update of which nothing was
// recorded, neither a gradient of its module nor what the optimizer keeps of it: a parameter that
// starts at 0 is nothing but its updates, which are as exact as its gradients, and nothing tells
// how exact these were.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_set>

#include "compare/diff.h"
#include "compare/pass_diff.h"

namespace tdump::compare {

// Not thread-safe. Memory: 8 bytes for each module of two steps, and of the first parameters that
// part so their names.
class UpdateHints {
 public:
  // Every outcome, in order of steps.
  void Add(const PassDiff& pass, const PassPair& pair, const Outcome& outcome);

  struct Hint {
    std::string text;
    // More than half of the digits of the parameter agree, as rounding leaves them.
    bool may_be_rounding = false;
  };
  // Of the report's origin, if it is such a parameter.
  std::optional<Hint> Find(const DiffReport& report) const;

 private:
  struct Step {
    uint64_t step = 0;
    std::unordered_set<uint64_t> updated;  // modules of which something of an update was recorded
  };
  using Place = std::tuple<uint64_t, int32_t, std::string>;  // step and rank of B, key
  void Enter(uint64_t step);

  std::optional<Step> before_, open_;
  std::map<Place, bool> parted_;  // whether it may be rounding
};

}  // namespace tdump::compare
