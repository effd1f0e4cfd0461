#include "collectors/torch/aten_collector.h"

namespace tdump::collectors {

void FollowGate(Runtime* runtime) noexcept {}

}  // namespace tdump::collectors
