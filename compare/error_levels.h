// What is made of error levels (compare/bounds.h).
#pragma once

#include <algorithm>

#include "compare/bounds.h"

namespace tdump::compare {

inline ErrorLevel Larger(const ErrorLevel& x, const ErrorLevel& y) {
  return {.power = std::max(x.power, y.power),
          .peak = std::max(x.peak, y.peak),
          .gain = std::max(x.gain, y.gain),
          .common = std::max(x.common, y.common)};
}
inline ErrorLevel Smaller(const ErrorLevel& x, const ErrorLevel& y) {
  return {.power = std::min(x.power, y.power),
          .peak = std::min(x.peak, y.peak),
          .gain = std::min(x.gain, y.gain),
          .common = std::min(x.common, y.common)};
}
inline bool IsNone(const ErrorLevel& level) { return level.power == 0 && level.peak == 0; }

inline ErrorLevel Sum(const ErrorLevel& x, const ErrorLevel& y) {
  return {.power = x.power + y.power,
          .peak = x.peak + y.peak,
          .gain = x.gain + y.gain,
          .common = x.common + y.common};
}
// Of the squares of numbers: (x + e)^2 - x^2 is 2 x e, and e^2, which is less unless they `cancel`.
// Of what is left of a sum that does e is larger than x. Of e^2 sum e^4 is at most max e^2 sum e^2,
// and sum x^4 at least (sum x^2)^2 / n: at most peak^2 power.
inline ErrorLevel OfSquares(const ErrorLevel& level, bool cancel) {
  const double largest = cancel ? level.peak * level.peak : 0;
  return {.power = (4 + largest) * level.power,
          .peak = 2 * level.peak + largest,
          .gain = 2 * level.gain,
          .common = level.common > 0 ? (4 + largest) * level.common : 0};
}

}  // namespace tdump::compare
