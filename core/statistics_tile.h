// How the moments of a tensor are summed, operation by operation. Compiles as C++ for the host and
// under NVRTC or nvcc for a device, so it includes nothing. Host code that uses it is compiled with
// -ffp-contract=off and runs with IEEE rounding to nearest and subnormals on.
//
//   1. The elements, in row-major order, are cut into tiles of 4,096; the last may be shorter.
//      Element i of a tile belongs to lane i mod 16. Every value is exact as a double, but for
//      64-bit integers beyond 2^53, which are rounded to nearest, and |z| (Magnitude below).
//      Values that are not finite take no part.
//   2. A tile's scale is 0 unless its largest |x| is at least 2^480 (600) or, not being 0, at most
//      2^-480 (-600): values are multiplied by 2^-scale first.
//   3. Each lane adds, in order of index, x to its sum, |x| to its l1, x * x to its squares, all
//      from +0. LaneSum() adds the lanes.
//   4. mean = sum / n, n the finite values; m2 = squares - sum * mean. If 4 * m2 < squares, the
//      mean dominates and m2 is taken anew: each lane adds (x - mean) * (x - mean); LaneSum().
//   5. Tiles are merged by index: 0 with 1, 2 with 3, ...; a last one without a partner goes up as
//      it is; then pairs of pairs, and so on. Merge() is Chan, Golub and LeVeque's update
//      ("Updating formulae and a pairwise algorithm for computing sample variances", 1979).
#pragma once

#if defined(__CUDACC__)
#define TDUMP_ANYWHERE __host__ __device__ inline
#else
#define TDUMP_ANYWHERE inline
#endif

namespace tdump {

constexpr int kTileElements = 4096;
constexpr int kTileLanes = 16;
constexpr int kHistogramBins = 32;

// One rounding each: no compiler may contract them.
#if defined(__CUDA_ARCH__)
TDUMP_ANYWHERE double TileAdd(double a, double b) { return __dadd_rn(a, b); }
TDUMP_ANYWHERE double TileMultiply(double a, double b) { return __dmul_rn(a, b); }
TDUMP_ANYWHERE double TileDivide(double a, double b) { return __ddiv_rn(a, b); }
TDUMP_ANYWHERE double TileRoot(double a) { return __dsqrt_rn(a); }
#else
TDUMP_ANYWHERE double TileAdd(double a, double b) { return a + b; }
TDUMP_ANYWHERE double TileMultiply(double a, double b) { return a * b; }
TDUMP_ANYWHERE double TileDivide(double a, double b) { return a / b; }
TDUMP_ANYWHERE double TileRoot(double a) { return __builtin_sqrt(a); }
#endif
// NVRTC knows no __builtin_huge_val.
TDUMP_ANYWHERE double TileInfinity() { return TileMultiply(0x1p1023, 2); }
TDUMP_ANYWHERE double TileAbs(double a) { return a < 0 ? -a : a; }

// Counts that any order of adding gives.
struct ValueCounts {
  unsigned long long nan = 0;
  unsigned long long positive_inf = 0;
  unsigned long long negative_inf = 0;
  unsigned long long zeros = 0;
  unsigned long long negative_zeros = 0;
  unsigned long long histogram[kHistogramBins] = {};
};

// The finite values of a tile or of merged tiles. mean and l1 are those of the values times
// 2^-scale, m2 and squares times 2^-2 scale; min and max are not scaled.
struct TileMoments {
  double finite = 0;  // exact below 2^53
  double mean = 0;
  double m2 = 0;       // sum of squared deviations from the mean
  double l1 = 0;       // sum of |x|
  double squares = 0;  // sum of x * x
  double min = TileInfinity();
  double max = -TileInfinity();
  double scale = 0;  // -600, 0 or 600
};

TDUMP_ANYWHERE double TileScale(double min, double max) {
  const double low = TileAbs(min), high = TileAbs(max);
  const double largest = low > high ? low : high;
  if (largest >= 0x1p480) return 600;
  return largest <= 0x1p-480 && largest > 0 ? -600 : 0;
}
// What values are multiplied by before they are summed.
TDUMP_ANYWHERE double TileFactor(double scale) {
  return scale == 0 ? 1.0 : scale > 0 ? 0x1p-600 : 0x1p600;
}

// Changes `lanes`. Lanes 8 apart are added, then 4, 2 and 1.
TDUMP_ANYWHERE double LaneSum(double lanes[kTileLanes]) {
  for (int width = kTileLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] = TileAdd(lanes[i], lanes[i + width]);
  }
  return lanes[0];
}

// The squared deviations of a tile from the first pass; false: they have to be summed.
TDUMP_ANYWHERE bool DeviationsFromSums(double sum, double mean, double squares, double* m2) {
  *m2 = TileAdd(squares, -TileMultiply(sum, mean));
  return TileMultiply(4, *m2) >= squares;
}

// |z| of a finite number, rounded; the largest double where that is too large. A function of the
// larger and the smaller part, so the order of the parts has no effect.
TDUMP_ANYWHERE double Magnitude(double real, double imaginary) {
  const double a = TileAbs(real), b = TileAbs(imaginary);
  const double scale = TileScale(a, b);
  const double factor = TileFactor(scale);
  const double x = TileMultiply(a, factor), y = TileMultiply(b, factor);
  const double root = TileRoot(TileAdd(TileMultiply(x, x), TileMultiply(y, y)));
  const double value = TileMultiply(root, scale == 0 ? 1.0 : scale > 0 ? 0x1p600 : 0x1p-600);
  return value <= 0x1.fffffffffffffp1023 ? value : 0x1.fffffffffffffp1023;
}

// Bin of a finite value other than 0.
TDUMP_ANYWHERE int HistogramBin(double value) {
  unsigned long long bits;
#if defined(__CUDA_ARCH__)
  bits = (unsigned long long)__double_as_longlong(value);
#else
  __builtin_memcpy(&bits, &value, sizeof bits);
#endif
  const int exponent = static_cast<int>((bits >> 52) & 2047) - 1023 + 127;
  return (exponent < 0 ? 0 : exponent > 255 ? 255 : exponent) >> 3;
}

// Brings moments to a larger scale.
TDUMP_ANYWHERE void ScaleTo(double scale, TileMoments* moments) {
  for (; moments->scale < scale; moments->scale += 600) {
    moments->mean = TileMultiply(moments->mean, 0x1p-600);
    moments->l1 = TileMultiply(moments->l1, 0x1p-600);
    moments->m2 = TileMultiply(TileMultiply(moments->m2, 0x1p-600), 0x1p-600);
    moments->squares = TileMultiply(TileMultiply(moments->squares, 0x1p-600), 0x1p-600);
  }
}

// `left` is of the tiles before those of `right`.
TDUMP_ANYWHERE TileMoments Merge(TileMoments left, TileMoments right) {
  if (right.finite == 0) return left;
  if (left.finite == 0) return right;
  TileMoments both;
  both.finite = left.finite + right.finite;
  both.min = left.min < right.min ? left.min : right.min;
  both.max = left.max > right.max ? left.max : right.max;
  both.scale = TileScale(both.min, both.max);
  ScaleTo(both.scale, &left);
  ScaleTo(both.scale, &right);
  const double delta = TileAdd(right.mean, -left.mean);
  const double part = TileDivide(right.finite, both.finite);
  both.mean = TileAdd(left.mean, TileMultiply(delta, part));
  both.m2 = TileAdd(TileAdd(left.m2, right.m2),
                    TileMultiply(TileMultiply(delta, delta), TileMultiply(left.finite, part)));
  both.l1 = TileAdd(left.l1, right.l1);
  both.squares = TileAdd(left.squares, right.squares);
  return both;
}

// The moments of one tile, as the definition says and no faster. `value(i)` is element i of
// `elements` <= kTileElements as a double, not finite where it takes no part.
template <class ValueAt>
TDUMP_ANYWHERE TileMoments MomentsOfTile(int elements, const ValueAt& value) {
  TileMoments tile;
  for (int i = 0; i < elements; ++i) {
    const double x = value(i);
    if (!(TileAbs(x) <= 0x1.fffffffffffffp1023)) continue;
    tile.finite += 1;
    tile.min = x < tile.min ? x : tile.min;
    tile.max = x > tile.max ? x : tile.max;
  }
  if (tile.finite == 0) return tile;
  tile.min = TileAdd(tile.min, 0);  // -0 becomes 0
  tile.max = TileAdd(tile.max, 0);
  tile.scale = TileScale(tile.min, tile.max);
  const double factor = TileFactor(tile.scale);
  double sums[kTileLanes] = {}, l1[kTileLanes] = {}, squares[kTileLanes] = {};
  for (int i = 0; i < elements; ++i) {
    if (!(TileAbs(value(i)) <= 0x1.fffffffffffffp1023)) continue;
    const double x = TileMultiply(value(i), factor);
    const int lane = i % kTileLanes;
    sums[lane] = TileAdd(sums[lane], x);
    l1[lane] = TileAdd(l1[lane], TileAbs(x));
    squares[lane] = TileAdd(squares[lane], TileMultiply(x, x));
  }
  const double sum = LaneSum(sums);
  tile.l1 = LaneSum(l1);
  tile.squares = LaneSum(squares);
  tile.mean = TileDivide(sum, tile.finite);
  if (DeviationsFromSums(sum, tile.mean, tile.squares, &tile.m2)) return tile;
  double deviations[kTileLanes] = {};
  for (int i = 0; i < elements; ++i) {
    if (!(TileAbs(value(i)) <= 0x1.fffffffffffffp1023)) continue;
    const double d = TileAdd(TileMultiply(value(i), factor), -tile.mean);
    deviations[i % kTileLanes] = TileAdd(deviations[i % kTileLanes], TileMultiply(d, d));
  }
  tile.m2 = LaneSum(deviations);
  return tile;
}

}  // namespace tdump
