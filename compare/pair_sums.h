// PairSums: everything Measure adds up over the pairs of two tensors. Not thread-safe. Memory: the
// bins of the errors and one sum for each channel. Internal to compare/.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "compare/error_bins.h"
#include "compare/pair_tile.h"

namespace tdump::compare {

// How often errors lie in each bin of ULP. Four tables in turn, as in ErrorBins.
class UlpCounts {
 public:
  void Add(std::span<const uint8_t> bins) {
    size_t i = 0;
    for (; i + 3 < bins.size(); i += 4) {
      for (size_t table = 0; table < 4; ++table) ++counts_[table][bins[i + table]];
    }
    for (; i < bins.size(); ++i) ++counts_[0][bins[i]];
  }
  void Add(size_t bin, uint64_t count) { counts_[0][bin] += count; }
  std::array<uint64_t, kUlpBins> Total() const {
    std::array<uint64_t, kUlpBins> total{};
    for (const auto& table : counts_) {
      for (size_t bin = 0; bin < total.size(); ++bin) total[bin] += table[bin];
    }
    return total;
  }

 private:
  std::array<std::array<uint64_t, kUlpBins>, 4> counts_{};
};

// What sums are of: e = b - a over the pairs finite on both sides ("compared"), unless said
// otherwise. Indices count elements of the walk.
struct PairSums {
  static constexpr uint64_t kNowhere = ~uint64_t{0};

  uint64_t compared = 0;
  uint64_t within_special = 0;  // the same special value on both sides
  uint64_t nan_a = 0, nan_b = 0, inf_a = 0, inf_b = 0;
  uint64_t nan_mismatch = 0, inf_mismatch = 0, sign_mismatch = 0, zero_sign_mismatch = 0;
  uint64_t finite_a = 0, finite_b = 0;
  long double square_a = 0, square_b = 0;  // over finite elements of each side
  long double error = 0, abs_error = 0, square_error = 0, product = 0, relative = 0;
  long double compared_square_a = 0, compared_square_b = 0;
  double max_abs = -1, max_rel = 0, max_ulp = 0;
  double max_excess = 0;  // of |e| - relative bound * max(|a|, |b|)
  unsigned __int128 max_abs_integer = 0;
  uint64_t equal = 0;    // integers: equal numbers
  uint64_t outside = 0;  // of the second pass
  uint64_t worst = kNowhere, first_special = kNowhere, first_bits = kNowhere;
  UlpCounts ulp;
  ErrorBins bins;
};

// How the pairs of one measurement are added.
class PairAdder {
 public:
  // `bound`: relative. `channels`: length of the last dimension, 0: no sums by channel.
  PairAdder(double bound, const UlpScale& ulp, uint64_t channels)
      : bound_(bound), ulp_(ulp), channel_errors_(channels, 0.0) {}

  // Real numbers from element `first` on, in tiles of any size; the fast way.
  void AddReals(std::span<const double> a, std::span<const double> b, uint64_t first);
  // The same where both sides' bits are equal.
  void AddEqualReals(std::span<const double> numbers);
  // A 64-bit integer meets a float.
  void AddWide(std::span<const long double> a, std::span<const long double> b, uint64_t first);
  void AddIntegers(std::span<const __int128> a, std::span<const __int128> b, uint64_t first);
  // (re, im) pairs. Special values are matched part by part; |a - b| is the modulus.
  void AddComplexes(std::span<const double> a, std::span<const double> b, uint64_t first);

  // Whether finite pairs lie outside: the same expression as max_excess, so both passes agree.
  void CountOutsideReals(std::span<const double> a, std::span<const double> b, double absolute);
  void CountOutsideWide(std::span<const long double> a, std::span<const long double> b,
                        double absolute);
  void CountOutsideComplexes(std::span<const double> a, std::span<const double> b, double absolute);

  PairSums& sums() { return sums_; }
  // Sum of e for each channel.
  const std::vector<double>& channel_errors() const { return channel_errors_; }

 private:
  template <class T>
  void AddReal(T a, T b, uint64_t index);
  void AddFiniteTile(std::span<const double> a, std::span<const double> b, uint64_t first);
  void AddError(double error, double magnitude, double larger, uint64_t index);
  void AddComplex(const double* a, const double* b, uint64_t index);
  void AddToChannels(const double* error, size_t n, uint64_t first);

  double bound_;
  UlpScale ulp_;
  PairSums sums_;
  std::vector<double> channel_errors_;
  PairScratch scratch_;
};

}  // namespace tdump::compare
