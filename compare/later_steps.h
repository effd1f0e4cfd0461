// Runs that agree at first and whose weights part on the way: what later steps compute follows from
// that, and the steps before are judged alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compare/diff.h"

namespace tdump::compare {

// Which `--steps` come before the first one, of B, with a pair that fails, and agree; "" where
// there are none, or something else than rounding differs.
std::string JudgeAloneText(const DiffReport& report, std::optional<uint64_t> first_failing);

// The same; "" also where nothing says that rounding may have parted weights. `lower_precision`: of
// B, as the user says.
std::string LaterStepsHint(const DiffReport& report, std::optional<uint64_t> first_failing,
                           bool lower_precision);

}  // namespace tdump::compare
