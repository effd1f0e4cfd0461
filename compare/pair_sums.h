// PairSums and PairAdder: everything Measure adds up over the pairs of two tensors. Internal to
// compare/.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "compare/channel_sums.h"
#include "compare/error_bins.h"
#include "compare/pair_tile.h"

namespace tdump::compare {

// What sums are of: e = b - a over the pairs finite on both sides ("compared"), unless said
// otherwise. Indices count elements of the walk.
struct PairSums {
  static constexpr uint64_t kNowhere = ~uint64_t{0};

  uint64_t bits_equal = 0;
  uint64_t compared = 0;
  uint64_t within_special = 0;  // the same special value on both sides
  uint64_t nan_a = 0, nan_b = 0, inf_a = 0, inf_b = 0;
  uint64_t nan_mismatch = 0, inf_mismatch = 0, sign_mismatch = 0, zero_sign_mismatch = 0;
  uint64_t finite_a = 0, finite_b = 0;
  long double square_a = 0, square_b = 0;  // over finite elements of each side
  long double error = 0, abs_error = 0, square_error = 0, product = 0, relative = 0;
  long double compared_square_a = 0, compared_square_b = 0;
  double max_abs = -1, max_rel = 0, max_ulp = 0;
  double max_excess = 0;    // of |e| - relative bound * max(|a|, |b|)
  double most_squares = 0;  // real numbers: of A, the largest sum over a tile, or of one number
  unsigned __int128 max_abs_integer = 0;
  // Of the first max_abs and the first max_rel. The latter is left out where an earlier piece of
  // the adder has as large a one.
  uint64_t worst = kNowhere, worst_relative = kNowhere;
  uint64_t first_special = kNowhere, first_bits = kNowhere;

  // Of the pairs behind these. The same pieces in the same order give the same bits.
  void Append(const PairSums& next);
};

// What is counted, whatever the order. One and a half MiB, of which the system gives what is used.
struct PairCounts {
  std::array<uint64_t, kUlpBins> ulp{};
  ErrorBins bins;

  void Add(const PairCounts& other);
  void Clear();
};

// Adds the pairs of one piece of a measurement after the other. Not thread-safe.
class PairAdder {
 public:
  // `bound`: relative. `channels`: length of the last dimension, 0: no sums by channel. `counts`
  // takes what is counted and outlives the adder.
  PairAdder(double bound, const UlpScale& ulp, uint64_t channels, PairCounts* counts)
      : bound_(bound), ulp_(ulp), channels_(channels), counts_(*counts) {}

  // Begins a piece.
  void Start() {
    max_ulp_before_ = std::max(max_ulp_before_, sums_.max_ulp);
    max_rel_before_ = std::max(max_rel_before_, sums_.max_rel);
    sums_ = {};
    channels_.Start();
  }

  // Real numbers from element `first` on, in tiles of any size.
  void AddReals(std::span<const double> a, std::span<const double> b, uint64_t first);
  // The same where they lie, at most a tile, of types that AreReadTogether. False, and nothing is
  // added: there are special values, or numbers too far from 1.
  bool AddTile(const Reals& a, const Reals& b, size_t n, uint64_t first);
  // At most a tile of numbers whose bits are equal on both sides. False as above.
  bool AddEqualTile(const Reals& numbers, size_t n);
  // A 64-bit integer meets a float.
  void AddWide(std::span<const long double> a, std::span<const long double> b, uint64_t first);
  void AddIntegers(std::span<const __int128> a, std::span<const __int128> b, uint64_t first);
  // (re, im) pairs. Special values are matched part by part; |a - b| is the modulus.
  void AddComplexes(std::span<const double> a, std::span<const double> b, uint64_t first);

  // `count` pairs that were added as zeros are equal ones that do not count.
  void LeaveOut(uint64_t count);

  // Of the piece. `max_ulp` is left out where an earlier piece has a larger one.
  PairSums& sums() { return sums_; }
  uint64_t zero_errors() const { return counts_.ulp[0]; }  // how many e are 0, of all pieces
  // Sum of e for each channel. Ends the piece.
  std::vector<double>& channel_errors() { return channels_.Finish(); }

 private:
  template <class T>
  void AddReal(T a, T b, uint64_t index);
  template <class T>
  void AddFinite(T a, T b, uint64_t index);
  template <class T>
  void AddMagnitude(T difference, T larger, uint64_t index);  // |a - b|, of the larger number
  void AddMoments(const PairMoments& m, const Reals& a, const Reals& b, size_t n, uint64_t first);
  void AddSums(const PairMoments& m, const Reals& a, const Reals& b, size_t n, uint64_t first);
  bool AddBFloat16(const Reals& a, const Reals& b, size_t n, uint64_t first);
  void AddRelative(double relative, uint64_t index);
  void AddError(double error, double magnitude, double larger, uint64_t index);
  void AddComplex(const double* a, const double* b, uint64_t index);

  double bound_;
  UlpScale ulp_;
  ChannelSums channels_;
  PairCounts& counts_;
  double max_ulp_before_ = 0, max_rel_before_ = 0;  // of the pieces before this one
  PairSums sums_;
  PairScratch scratch_;
};

// How many finite pairs lie outside: the same expression as max_excess, so both passes agree.
uint64_t CountOutsideReals(std::span<const double> a, std::span<const double> b, double relative,
                           double absolute);
uint64_t CountOutsideWide(std::span<const long double> a, std::span<const long double> b,
                          double relative, double absolute);
uint64_t CountOutsideComplexes(std::span<const double> a, std::span<const double> b,
                               double relative, double absolute);

}  // namespace tdump::compare
