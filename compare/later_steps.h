// Runs that agree at first and whose weights part on the way: what later steps compute follows from
// that, and the steps before are judged alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compare/diff.h"

namespace tdump::compare {

// Which `--steps` have no such weights; "" where nothing says that rounding may have parted them.
// `first_failing`: the first step, of B, with a pair that fails. `lower_precision`: of B, as the
// user says.
std::string LaterStepsHint(const DiffReport& report, std::optional<uint64_t> first_failing,
                           bool lower_precision);

}  // namespace tdump::compare
