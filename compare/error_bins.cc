#include "compare/error_bins.h"

#include <cmath>
#include <new>

namespace tdump::compare {

uint64_t* ErrorBins::Allocate() {
  auto* counts = static_cast<uint64_t*>(std::calloc(kBins, sizeof(uint64_t)));
  if (counts == nullptr) throw std::bad_alloc();
  return counts;
}

double ErrorBins::Quantile(double q, uint64_t total, uint64_t zeros, double max) const {
  const auto rank = static_cast<uint64_t>(std::ceil(q * static_cast<double>(total)));
  if (rank <= zeros) return 0;
  // Bin 0 holds zeros and, where `first_` is 0, what is next to them.
  uint64_t seen = first_ == 0 ? 0 : zeros;
  for (size_t bin = first_; bin <= last_; ++bin) {
    seen += counts_[bin] + others_[bin];
    const uint64_t middle = static_cast<uint64_t>(bin) << kShift | uint64_t{1} << (kShift - 1);
    if (seen >= rank) return std::min(std::bit_cast<double>(middle), max);
  }
  return max;
}

}  // namespace tdump::compare
