// The vector loop of Measure over pairs of bfloat16: several times as fast as that of pair_tile.h,
// and the same bits. What 16 or 32 bits hold exactly is done in them: magnitudes, bins, and b - a
// where the exponents of a pair are close. Internal to compare/.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compare/pair_tile.h"

namespace tdump::compare {

inline constexpr size_t kBFloat16Block = 32;  // pairs at a time

inline constexpr UlpScale kBFloat16Ulp{.mantissa_bits = 7, .least_exponent = -126};

// The order of sums by channel that the loop has: even channels of a block, then odd ones.
inline constexpr uint64_t PlaceInBlock(uint64_t channel) {
  const uint64_t within = channel % kBFloat16Block;
  return channel - within + within % 2 * (kBFloat16Block / 2) + within / 2;
}

// The sums by channel to which a tile is added.
struct TileChannels {
  double* sums = nullptr;  // at PlaceInBlock; null: none
  uint64_t count = 0;      // a multiple of kBFloat16Block
  uint64_t first = 0;      // of the tile; too
};

// Whether the loop knows a relative bound, which it takes as a float.
inline constexpr bool IsBoundForBFloat16(double bound) {
  return bound == 0 || (bound >= 0x1p-60 && bound <= 0x1p60);
}

// What is looked at first.
struct BFloat16Look {
  // All are finite, those but 0 are at least 2^-80, and no pair of them is 2^16 apart or more.
  bool usable = false;
  uint64_t sign_mismatches = 0, zero_sign_mismatches = 0;  // where usable
};

// Precondition of both: n <= kPairTile is a multiple of kBFloat16Block.
BFloat16Look LookAtBFloat16(const std::byte* a, const std::byte* b, size_t n);

// By how much of itself the max_excess of MomentsOfBFloat16 may be off: what float32 rounds.
inline constexpr double kBFloat16ExcessOff = 0x1p-20;

// As MomentsOf with kBFloat16Ulp, of a usable tile; but max_excess may be off by
// kBFloat16ExcessOff, and is 0 only where that of MomentsOf is. Errors are counted in `bins`, as
// ErrorBins::Counters has them, errors in ULP are left in `scratch`, of which nothing else is of
// use.
PairMoments MomentsOfBFloat16(const std::byte* a, const std::byte* b, size_t n, double bound,
                              const BFloat16Look& look, const TileChannels& channels,
                              uint32_t* bins, PairScratch* scratch);

}  // namespace tdump::compare
