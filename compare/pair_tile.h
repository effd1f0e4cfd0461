// The vector loops of Measure: a tile of pairs of finite doubles at a time. Results are the same
// bits whatever the processor's vectors: 16 lanes by index, one rounding an operation. Internal to
// compare/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tdump::compare {

inline constexpr size_t kPairTile = 1024;  // pairs: both sides and the scratch stay in the L1 cache

// One unit in the last place of a number x in a float format: 2^(e - mantissa_bits), e the larger
// of x's exponent and the format's least.
struct UlpScale {
  int mantissa_bits = 52;
  int least_exponent = -900;
};

// Of e = b - a over a tile.
struct PairMoments {
  double error = 0, abs_error = 0, square_error = 0;
  double square_a = 0, square_b = 0, product = 0;
  double relative = 0;  // sum of |e| / max(|a|, |b|), 0 / 0 = 0
  double max_abs = 0, max_relative = 0, max_ulp = 0;
  double least_error = 0;  // the smallest |e| but 0; infinite: all are 0
  double max_excess = 0;   // of |e| - bound * max(|a|, |b|), at least 0
  uint64_t sign_mismatches = 0;
};

// What a tile leaves for the loops that are not arithmetic.
struct PairScratch {
  alignas(64) double error[kPairTile];     // b - a
  alignas(64) uint16_t bin[kPairTile];     // ErrorBins::BinOf(|e|)
  alignas(64) uint8_t ulp_bin[kPairTile];  // UlpBinOf
};

// Bins of an error in ULP: 0 is none, 1 less than one, k >= 2 from 2^(k - 2) to below 2^(k - 1);
// the last one also takes what lies above.
inline constexpr int kUlpBins = 66;

// How the numbers of a tile are spread.
struct PairRange {
  bool finite = true;
  double largest = 0;  // of all |a|, |b|; of `finite` tiles only
};
PairRange RangeOf(std::span<const double> a, std::span<const double> b);

// Precondition: equal sizes of at most kPairTile; all finite and the largest 0 or between 2^-480
// and 2^480.
PairMoments MomentsOf(std::span<const double> a, std::span<const double> b, double bound,
                      const UlpScale& ulp, PairScratch* scratch);

// Sum of x * x. The same precondition.
double SquaresOf(std::span<const double> numbers);

// How many pairs have |a - b| - relative * max(|a|, |b|) > absolute.
uint64_t CountOutside(std::span<const double> a, std::span<const double> b, double relative,
                      double absolute);

enum class RealType : uint8_t { kFloat32, kBFloat16, kFloat16 };
// Exact. `bytes` at any address, as many as numbers.
void DecodeReal(RealType type, const std::byte* bytes, std::span<double> numbers);

}  // namespace tdump::compare
