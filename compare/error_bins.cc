#include "compare/error_bins.h"

#include <cmath>
#include <limits>
#include <new>

namespace tdump::compare {

template <class T>
ErrorBins::Counts<T> ErrorBins::Allocate(size_t count) {
  auto* counts = static_cast<T*>(std::calloc(count, sizeof(T)));
  if (counts == nullptr) throw std::bad_alloc();
  return Counts<T>(counts);
}

ErrorBins::ErrorBins()
    : totals_(Allocate<uint64_t>(kBins)), counts_(Allocate<uint32_t>(kBins * kTurns)) {}

void ErrorBins::Add(std::span<const uint16_t> bins, size_t least, double most) {
  if (most == 0) return;
  uint32_t* counts = Counters(bins.size());
  size_t i = 0;
  for (; i + kBlock <= bins.size(); i += kBlock) CountBlock(bins.data() + i, counts);
  for (; i < bins.size(); ++i) ++counts[bins[i] * kTurns];
  Cover(least, most);
}

uint32_t* ErrorBins::Counters(size_t count) {
  if (unflushed_ + count > std::numeric_limits<uint32_t>::max()) Flush();
  unflushed_ += count;
  return counts_.get();
}

void ErrorBins::Cover(size_t least, double most) {
  if (most == 0) return;
  first_ = std::min(first_, least);
  last_ = std::max(last_, BinOf(most));
}

uint64_t ErrorBins::CountOf(size_t bin) const {
  uint64_t count = totals_[bin];
  if (bin < kUnused) return count;
  for (size_t turn = 0; turn < kTurns; ++turn) count += counts_[bin * kTurns + turn];
  return count;
}

void ErrorBins::Flush() {
  for (size_t bin = first_; bin <= last_; ++bin) {
    totals_[bin] = CountOf(bin);
    std::fill_n(counts_.get() + bin * kTurns, kTurns, 0);
  }
  unflushed_ = 0;
}

void ErrorBins::Add(const ErrorBins& other) {
  first_ = std::min(first_, other.first_);
  last_ = std::max(last_, other.last_);
  for (size_t bin = other.first_; bin <= other.last_; ++bin) totals_[bin] += other.CountOf(bin);
}

void ErrorBins::Clear() {
  Flush();
  if (first_ <= last_) std::fill(totals_.get() + first_, totals_.get() + last_ + 1, 0);
  first_ = kBins - 1;
  last_ = 0;
}

double ErrorBins::Quantile(double q, uint64_t total, uint64_t zeros, double max) const {
  const auto rank = static_cast<uint64_t>(std::ceil(q * static_cast<double>(total)));
  if (rank <= zeros) return 0;
  uint64_t seen = zeros;
  for (size_t bin = first_; bin <= last_; ++bin) {
    seen += CountOf(bin);
    const uint64_t middle = static_cast<uint64_t>(bin) << kShift | uint64_t{1} << (kShift - 1);
    // The middle of the bin of what is beyond a double is no number.
    if (seen >= rank) return std::min(max, std::bit_cast<double>(middle));
  }
  return max;
}

}  // namespace tdump::compare
