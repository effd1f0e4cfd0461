#include "compare/stage_hint.h"

#include "compare/layers.h"
#include "compare/roles.h"

namespace tdump::compare {

void StageHint::Add(Role role, std::string_view path, bool same_shape, bool differs) {
  if (!LayerOf(path)) return;
  other_shapes_ = other_shapes_ || !same_shape;
  if (role == Role::kParam) {
    ++weights_;
    weights_differing_ += differs;
  } else if (role == Role::kOutput) {
    ++outputs_;
    outputs_differing_ += differs;
  }
}

bool StageHint::LooksLikeStages() const {
  if (other_shapes_ || outputs_differing_ < outputs_) return false;
  return weights_ > 0 ? 2 * weights_differing_ > weights_ : outputs_ > 0;
}

}  // namespace tdump::compare
