// How a failed expectation shows the steps.
#pragma once

#include <ostream>

#include "coordinator/step_aligner.h"

namespace tdump::coordinator {

inline void PrintTo(const ExtraStep& extra, std::ostream* out) {
  *out << "rank " << extra.rank << " step " << extra.local << (extra.by_time ? " by time" : "");
}

}  // namespace tdump::coordinator
