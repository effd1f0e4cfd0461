#include "launch/runtime/optimizers.h"

#include <algorithm>

namespace tdump::launch {

uint64_t Optimizers::Number(const void* optimizer, std::string_view cls) {
  uint64_t number = 0;
  {
    std::lock_guard lock(mutex_);
    const auto found = std::find(known_.begin(), known_.end(), optimizer);
    number = static_cast<uint64_t>(found - known_.begin());
    if (found != known_.end()) return number;
    known_.push_back(optimizer);
  }
  clock_->boundary({.kind = BoundaryKind::kOptimizerCreated, .name = cls, .instance = number});
  return number;
}

void Optimizers::Created(const void* optimizer) noexcept {
  try {
    Number(optimizer, "");
  } catch (...) {  // out of memory: the step is not seen
  }
}

void Optimizers::Stepped(const void* optimizer, std::string_view cls) noexcept {
  try {
    const uint64_t number = Number(optimizer, cls);
    clock_->boundary({.kind = BoundaryKind::kOptimizerStep, .name = cls, .instance = number});
  } catch (...) {
  }
}

}  // namespace tdump::launch
