// StageHint: whether ranks of which nobody says where they are look like stages of a pipeline that
// count their layers from 0 on: what they call one layer has one shape and other values.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/types.h"

namespace tdump::compare {

class StageHint {
 public:
  // What two ranks hold under one name, if it is a layer's. `differs`: in any bit.
  void Add(Role role, std::string_view path, bool same_shape, bool differs);
  // Weights, or else outputs, tell; some of the weights may be alike as they were initialised.
  bool LooksLikeStages() const;

 private:
  uint64_t weights_ = 0, weights_differing_ = 0;
  uint64_t outputs_ = 0, outputs_differing_ = 0;
  bool other_shapes_ = false;
};

}  // namespace tdump::compare
