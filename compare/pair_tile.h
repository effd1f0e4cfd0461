// The vector loops of Measure: a tile of pairs of finite numbers at a time, read where they lie.
// Results are the same bits whatever the processor's vectors: 16 lanes by index, one rounding an
// operation. Internal to compare/.
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

  friend bool operator==(const UlpScale&, const UlpScale&) = default;
};

enum class RealType : uint8_t { kFloat64, kFloat32, kBFloat16, kFloat16 };

inline constexpr size_t BytesOf(RealType type) {
  return type == RealType::kFloat64 ? 8 : type == RealType::kFloat32 ? 4 : 2;
}

// Numbers of one type at any address.
struct Reals {
  RealType type = RealType::kFloat64;
  const std::byte* bytes = nullptr;

  static Reals Of(std::span<const double> numbers) {
    return {RealType::kFloat64, reinterpret_cast<const std::byte*>(numbers.data())};
  }
};

// Of e = b - a over a tile.
struct PairMoments {
  // Whether the rest holds: all numbers are finite; of kFloat64 the largest and every |e| are
  // besides 0 or between 2^-480 and 2^480.
  bool usable = false;
  double error = 0, abs_error = 0, square_error = 0;
  double square_a = 0, square_b = 0, product = 0;
  double relative = 0;  // sum of |e| / max(|a|, |b|), 0 / 0 = 0
  double max_abs = 0, max_relative = 0;
  // ErrorBins::BinOf of the smallest |e| but 0 (the last bin: all are 0), and of the largest error
  // in ULP.
  size_t least_bin = 0, max_ulp_bin = 0;
  double max_excess = 0;  // of |e| - bound * max(|a|, |b|), at least 0
  uint64_t sign_mismatches = 0;
  uint64_t zero_sign_mismatches = 0;  // of them: 0 against -0
};

// What a tile leaves for the loops that are not arithmetic.
struct PairScratch {
  alignas(64) double error[kPairTile];  // b - a
  // ErrorBins::BinOf(|e|). Where e is 0, which the bins of ULP count, one of the unused, in turn:
  // so that no counter waits for itself.
  alignas(64) uint16_t bin[kPairTile];
  alignas(64) uint16_t exponent[kPairTile];  // of max(|a|, |b|), biased
  alignas(64) uint8_t ulp_bin[kPairTile];
};

// Bins of an error in ULP: 0 is none, 1 less than one, k >= 2 from 2^(k - 2) to below 2^(k - 1);
// the last one also takes what lies above.
inline constexpr int kUlpBins = 66;

// Whether what takes two sides can read them as they lie: float64 goes with itself alone.
inline constexpr bool AreReadTogether(RealType a, RealType b) {
  return (a == RealType::kFloat64) == (b == RealType::kFloat64);
}

// Of the first n <= kPairTile numbers of two sides that AreReadTogether.
PairMoments MomentsOf(const Reals& a, const Reals& b, size_t n, double bound, const UlpScale& ulp,
                      PairScratch* scratch);

// The largest error in ULP. Precondition: as `usable`.
double MaxUlpsOf(const Reals& a, const Reals& b, size_t n, const UlpScale& ulp);

// max_excess alone.
double MaxExcessOf(const Reals& a, const Reals& b, size_t n, double bound);

// errors[i] = b[i] - a[i]; there is room for kPairTile.
void SubtractEach(const Reals& a, const Reals& b, size_t n, double* errors);

// Sum of x * x; not finite where a number is not.
double SquaresOf(const Reals& numbers, size_t n);

// How many pairs have |a - b| - relative * max(|a|, |b|) > absolute; none that has a special value.
uint64_t CountOutside(const Reals& a, const Reals& b, size_t n, double relative, double absolute);

// counts[k] += how many of the n <= kPairTile bins are k < kUlpBins.
void CountUlps(const uint8_t* bins, size_t n, uint64_t* counts);

// sums[i] += numbers[i].
void AddEach(double* sums, const double* numbers, size_t n);

// Exact. `numbers.bytes` at any address, as many as `out`.
void DecodeReal(const Reals& numbers, std::span<double> out);

}  // namespace tdump::compare
