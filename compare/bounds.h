// Bounds: what rounding explains of the difference of two tensors, before anything is known of the
// error that went into the operator (compare/explain.h adds that).
#pragma once

#include <algorithm>
#include <optional>

#include "compare/compute.h"
#include "compare/reduction.h"
#include "compare/verdict.h"

namespace tdump::compare {

// How far two tensors are apart, relative to the signal. Of e = b - a:
struct ErrorLevel {
  double power = 0;  // sum e^2 / sum a^2
  double peak = 0;   // max |e| / min(rms(a), rms(b))
  double gain = 0;   // |a.b / a.a - 1|: the part of e that is a multiple of a
  // Power of the part of e that is the same in all rows; all of it where rows are not known.
  double common = 0;

  // Power of what is no multiple of a.
  double noise() const { return std::max(0.0, power - gain * gain); }
  double common_share() const { return power > 0 ? std::min(1.0, common / power) : 1; }
};

// Signal-to-error ratio in dB of a relative error power; infinite for 0.
double DbOf(double power);

// Of a measured pair; all 0 where everything is equal, infinite where only one side is 0.
ErrorLevel LevelOf(const Metrics& metrics);

struct BoundFacts {
  DType a, b;  // as recorded
  Reduction reduction;
  // How often the sum is rounded to its dtype: the gradients of calls are added up in it.
  uint64_t roundings = 1;
  const Precision* compute = nullptr;  // what the operator computed in; nullptr: its dtypes
};

// v below, of results of these dtypes.
double SumRoundoff(const DType& a, const DType& b);

struct LocalBound {
  Bound bound;  // of each element
  ErrorLevel level;
};

inline constexpr double kBoundFactor = 4;

// u: unit roundoff of the coarser dtype (with `compute`, at least that of the precision); r: how
// often the sum is rounded to it, 1 where u = v; K: terms added, each addition rounded to v
// (float32, or float64 for float64); p: roundoff of the operands of a product.
//
//   each element: 4 * (sqrt(r) * u + sqrt(K) * v + sqrt(2) * p), of |x| and of rms
//   power:        4 * (2 r (c u)^2 + K v^2 + 2 (c p)^2), c = 0.4245: the rms of a rounding error
//                 is c u for numbers whose logarithms are spread evenly
//
// Two operands with independent errors of relative size p give a product's error of sqrt(2) p of
// what the terms add up to without cancellation. Of unknown operators a product is assumed.
// Rounding errors of a sum of K terms grow like sqrt(K) on average (Higham, Accuracy and Stability,
// 2.8 and 4.2). Integers: exact, and so are scales (float8_e8m0fnu) unless `compute` is given: the
// next one is twice as large.
LocalBound LocalBoundOf(const BoundFacts& facts);

}  // namespace tdump::compare
