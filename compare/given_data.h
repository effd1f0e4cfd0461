// GivenData: what a rank was given in a step, by the hashes of inputs, and whether another rank was
// given the same.
//
// The model's inputs tell, of a micro-batch first, else of the step: by their values, and by those
// that one rank alone has of a call (images), unless integers (token ids) that both have are equal:
// then that rank has more of the same data (labels). Where the ranks share none with a hash, the
// first input of any module that both have.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compare/step_view.h"

namespace tdump::compare {

// Immutable. Memory: a few words for each input of a pass.
class GivenData {
 public:
  explicit GivenData(const StepView& view);

  // None: nothing tells. `are_same_by_place`: as the ranks lie, they are given the same, though
  // each may hold its shard of what modules and stages hand on. Integers (token ids) alone tell
  // then that they were not.
  std::optional<bool> IsAsOf(const GivenData& other, uint32_t micro, bool are_same_by_place) const;

 private:
  struct Input {
    uint64_t name = 0;  // a hash
    std::optional<uint64_t> value;
    uint64_t call = 0;  // that it is an argument of, a hash
    uint32_t micro = 0;
    bool is_integer = false;
  };
  using Inputs = std::vector<Input>;
  std::optional<bool> SameOfModel(const GivenData& other, std::optional<uint32_t> micro,
                                  bool integers_tell) const;
  // Whether an input of a call that both have is one of this alone.
  bool HasMore(const GivenData& other, std::optional<uint32_t> micro) const;
  std::optional<bool> SameFirst(const GivenData& other, std::optional<uint32_t> micro) const;

  Inputs of_model_;                    // by name
  std::vector<uint64_t> model_calls_;  // of these, ascending
  Inputs in_order_;                    // of any module, with a value
  Inputs by_name_;                     // the same
};

}  // namespace tdump::compare
