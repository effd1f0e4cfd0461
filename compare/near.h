// What is near enough for all of its error to be taken for one that goes on.
#pragma once

#include "compare/bounds.h"

namespace tdump::compare {

// An error of a tenth: beyond it what follows is other work.
inline constexpr double kNearDb = 20;

inline bool IsNear(const ErrorLevel& error) { return DbOf(error.power) >= kNearDb; }

}  // namespace tdump::compare
