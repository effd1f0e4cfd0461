// Statistics: what is known of a tensor's values without them. A function of the values alone: the
// same on every CPU, vector width, number of threads and device, and for any cut into pieces
// (core/statistics_tile.h defines the order of every floating-point operation; docs/format.md,
// "Statistics", the same in words). Plain data.
//
// Finite values only, unless a field says otherwise; a NaN or infinity is counted and left out.
// Where no value is finite, min, max, mean, mean_abs, l1 and l2 have no meaning; std needs two. A
// reader shows these as "none" (has_range(), has_std()); the fields are then 0, absmax() and rms()
// too.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/statistics_tile.h"

namespace tdump {

enum class StatisticsKind : uint8_t {
  kReal = 0,
  // Of |z|. An element is finite when both parts are. NaN, infinities and -0 are counted part by
  // part, zeros are elements with two zero parts.
  kComplex = 1,
  kInteger = 2,  // bool too: 0 and 1
  kBits = 3,     // a dtype that says nothing about numbers: only `count` is set
};
// "real", "complex", "integer", "bits"; "unknown" for what a newer tdump wrote.
std::string_view ToString(StatisticsKind kind);

struct Statistics {
  StatisticsKind kind = StatisticsKind::kReal;
  uint64_t count = 0;   // elements (two a unit of float4_e2m1fn_x2), finite or not
  uint64_t finite = 0;  // of them
  uint64_t nan = 0;
  uint64_t positive_inf = 0;
  uint64_t negative_inf = 0;
  uint64_t zeros = 0;           // -0 too
  uint64_t negative_zeros = 0;  // of them
  double min = 0;               // -0 counts as 0
  double max = 0;
  double mean = 0;
  double std = 0;       // as torch.std's default: the root of the squared deviations / (finite - 1)
  double mean_abs = 0;  // l1 / finite
  double l1 = 0;        // sum of |x|; infinity beyond the range of a double, l2 and std too
  double l2 = 0;        // root of the sum of squares
  // Bin b: non-zero finite values with 8 b <= min(max(E + 127, 0), 255) < 8 b + 8, E being
  // floor(log2|x|): eight exponents of float32 a bin; what is smaller or larger than any float32
  // is in the first or last.
  std::array<uint64_t, kHistogramBins> histogram{};
  // kInteger only: exactly. min, max and mean above are these, rounded to a double; std, l1 and l2
  // are of the values rounded to doubles, which changes none below 2^53.
  __int128 exact_min = 0;
  __int128 exact_max = 0;
  __int128 exact_sum = 0;

  bool has_range() const { return finite != 0; }
  bool has_std() const { return finite > 1; }
  // Largest |x|; of kInteger rounded to a double.
  double absmax() const;
  // Root of the mean of the squares: l2 / sqrt(finite).
  double rms() const;
  bool operator==(const Statistics&) const = default;
};

// What additive counts, a whole tensor's moments and, for integers, exact sums make.
Statistics FinishStatistics(StatisticsKind kind, uint64_t count, const ValueCounts& counts,
                            const TileMoments& moments);

}  // namespace tdump
