// ErrorBins: how often |a - b| lies in each of 32 bins to the octave. Quantiles come from it with
// an error of at most 1/64 of their value, in memory that does not grow with the tensor.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

namespace tdump::compare {

// One MiB, of which the system gives what is used.
class ErrorBins {
 public:
  // The upper 16 of a double's bits but its sign: exponent and five bits of the mantissa.
  static constexpr int kShift = 52 - 5;
  static constexpr size_t kBins = 1 << 16;

  static size_t BinOf(double magnitude) { return std::bit_cast<uint64_t>(magnitude) >> kShift; }

  // Magnitudes are 0 or more.
  void Add(double magnitude) {
    ++counts_[BinOf(magnitude)];
    if (magnitude != 0) Widen(magnitude, magnitude);
  }
  void AddZeros(uint64_t count) { counts_[0] += count; }
  // Bins of magnitudes that are 0 or from `least` to `most`.
  void Add(std::span<const uint16_t> bins, double least, double most) {
    // Two tables in turn: neighbours often go to one bin, and an increment takes five cycles to be
    // seen by the next.
    size_t i = 0;
    for (; i + 1 < bins.size(); i += 2) {
      ++counts_[bins[i]];
      ++others_[bins[i + 1]];
    }
    if (i < bins.size()) ++counts_[bins[i]];
    if (most != 0) Widen(least, most);
  }

  // The smallest magnitude that at least the share `q` of `total` does not exceed (the inverse of
  // the empirical distribution), to within 1/64. `zeros` of those added are 0, none is above `max`.
  double Quantile(double q, uint64_t total, uint64_t zeros, double max) const;

 private:
  struct Free {
    void operator()(uint64_t* counts) const { std::free(counts); }
  };
  static uint64_t* Allocate();
  void Widen(double least, double most) {
    first_ = std::min(first_, BinOf(least));
    last_ = std::max(last_, BinOf(most));
  }

  std::unique_ptr<uint64_t[], Free> counts_{Allocate()}, others_{Allocate()};
  size_t first_ = kBins - 1, last_ = 0;  // of magnitudes other than 0
};

}  // namespace tdump::compare
