// Statistics of a record for people and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/statistics.h"

namespace tdump::tools {

// "min -1.5  max 88.5  mean 0.012  std 1.1  rms 1.1  (3 NaN, 1 -Inf)".
std::string StatisticsText(const Statistics& statistics);
// Largest |x| of the finite values, exactly for integers; "-" where there is none.
std::string AbsmaxText(const Statistics& statistics);
// Root of the mean square; "-" where there is none.
std::string RmsText(const Statistics& statistics);
nlohmann::ordered_json StatisticsJson(const Statistics& statistics);

}  // namespace tdump::tools
