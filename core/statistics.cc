#include "core/statistics.h"

#include <algorithm>
#include <cmath>

namespace tdump {

std::string_view ToString(StatisticsKind kind) {
  switch (kind) {
    case StatisticsKind::kReal:
      return "real";
    case StatisticsKind::kComplex:
      return "complex";
    case StatisticsKind::kInteger:
      return "integer";
    case StatisticsKind::kBits:
      return "bits";
  }
  return "unknown";
}

double Statistics::absmax() const { return std::max(std::fabs(min), std::fabs(max)); }

double Statistics::rms() const {
  return has_range() ? l2 / std::sqrt(static_cast<double>(finite)) : 0;
}

Statistics FinishStatistics(StatisticsKind kind, uint64_t count, const ValueCounts& counts,
                            const TileMoments& moments) {
  Statistics out;
  out.kind = kind;
  out.count = count;
  out.finite = static_cast<uint64_t>(moments.finite);
  out.nan = counts.nan;
  out.positive_inf = counts.positive_inf;
  out.negative_inf = counts.negative_inf;
  out.zeros = counts.zeros;
  out.negative_zeros = counts.negative_zeros;
  for (int bin = 0; bin < kHistogramBins; ++bin) out.histogram[bin] = counts.histogram[bin];
  if (!out.has_range()) return out;
  const double back = moments.scale == 0 ? 1.0 : moments.scale > 0 ? 0x1p600 : 0x1p-600;
  out.min = moments.min;
  out.max = moments.max;
  out.mean = TileMultiply(moments.mean, back);
  out.mean_abs = TileMultiply(TileDivide(moments.l1, moments.finite), back);
  out.l1 = TileMultiply(moments.l1, back);
  out.l2 = TileMultiply(TileRoot(moments.squares), back);
  if (out.has_std()) {
    const double variance = TileDivide(moments.m2, moments.finite - 1);
    out.std = TileMultiply(TileRoot(variance), back);
  }
  return out;
}

}  // namespace tdump
