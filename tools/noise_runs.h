// The runs of `tdump-diff --noise`: repeats of A, compared with it to see how far equal runs are
// apart.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compare/diff.h"

namespace tdump::tools {

// `options`: of the comparison that is to be judged; what it selects is measured. Errors: a run
// that cannot be read, or that has nothing in common with A.
Result<std::shared_ptr<const compare::NoiseModel>> MeasureNoise(
    const compare::RunSide& a, const std::vector<std::string>& repeats,
    const compare::DiffOptions& options);

}  // namespace tdump::tools
