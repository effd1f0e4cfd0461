// What a pair was held to, in words.
#pragma once

#include <optional>
#include <string>

#include "compare/explain.h"
#include "compare/pass_diff.h"

namespace tdump::compare {

// "8.2e-06 of |x| and of rms: ...; inputs at 26.9 dB explain 25.1 dB".
std::string BoundText(const Outcome& outcome);

// How far the values are apart and what of that is explained: "6.2 dB, 24.4 dB explained", "26.0
// dB, 21.3 dB explained; B is 1.05 times A, within 0.0086 explained". "" where nothing was
// explained.
std::string ExplainedText(const Comparison& comparison,
                          const std::optional<Explanation>& explained);

}  // namespace tdump::compare
