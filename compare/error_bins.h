// ErrorBins: how often |a - b| lies in each of 32 bins to the octave. Quantiles come from it with
// an error of at most 1/64 of their value, in memory that does not grow with the tensor.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

namespace tdump::compare {

// One and a half MiB, of which the system gives what is used. Zeros are not counted here.
class ErrorBins {
 public:
  ErrorBins();

  // The upper 16 of a double's bits but its sign: exponent and five bits of the mantissa.
  static constexpr int kShift = 52 - 5;
  static constexpr size_t kBins = 1 << 16;

  static size_t BinOf(double magnitude) { return std::bit_cast<uint64_t>(magnitude) >> kShift; }

  // Magnitudes are greater than 0.
  void Add(double magnitude) {
    const size_t bin = BinOf(magnitude);
    ++totals_[bin];
    first_ = std::min(first_, bin);
    last_ = std::max(last_, bin);
  }
  // The first ones, of magnitudes that vectors do not handle: what they send there is not counted.
  static constexpr size_t kUnused = 16;
  // Bins of magnitudes up to `most`, `least` the first of them.
  void Add(std::span<const uint16_t> bins, size_t least, double most);
  // The same for who counts himself: for at most `count` bins in all, each at its number times
  // kTurns, plus a turn; Cover tells which there were.
  uint32_t* Counters(size_t count);
  void Cover(size_t least, double most);
  void Add(const ErrorBins& other);
  void Clear();

  // The smallest magnitude that at least the share `q` of `total` does not exceed (the inverse of
  // the empirical distribution), to within 1/64. `zeros` of them are 0, none is above `max`.
  double Quantile(double q, uint64_t total, uint64_t zeros, double max) const;

  // Counters of a bin, taken in turn: neighbours often go to one bin, and an increment takes
  // cycles to be seen by the next.
  static constexpr size_t kTurns = 4;
  static constexpr size_t kBlock = 32;
  // Counts kBlock bins where Counters says.
  static void CountBlock(const uint16_t* bins, uint32_t* counts) {
#pragma GCC unroll 8
    for (size_t i = 0; i < kBlock; i += kTurns) {
      uint64_t four;
      std::memcpy(&four, bins + i, sizeof(four));
      ++counts[(four & 0xFFFF) * kTurns];
      ++counts[((four >> 16) & 0xFFFF) * kTurns + 1];
      ++counts[((four >> 32) & 0xFFFF) * kTurns + 2];
      ++counts[(four >> 48) * kTurns + 3];
    }
  }

 private:
  template <class T>
  struct Free {
    void operator()(T* counts) const { std::free(counts); }
  };
  template <class T>
  using Counts = std::unique_ptr<T[], Free<T>>;
  template <class T>
  static Counts<T> Allocate(size_t count);

  uint64_t CountOf(size_t bin) const;
  void Flush();

  Counts<uint64_t> totals_;
  Counts<uint32_t> counts_;  // since the last Flush
  uint64_t unflushed_ = 0;
  size_t first_ = kBins - 1, last_ = 0;
};

}  // namespace tdump::compare
