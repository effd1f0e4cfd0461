// A file system in RAM whose clock stands still and whose modification times are all the same, so
// that what is written is the same bytes every time.
#pragma once

#include <memory>

#include "core/env.h"

namespace tdump::io::test {

inline constexpr int64_t kFixedNs = 1'700'000'000'123'456'789;

std::unique_ptr<Env> NewFixedEnv();

}  // namespace tdump::io::test
