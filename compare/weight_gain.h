// WeightGain: whether a weight that the sides hold in two dtypes, or one of them with scales, is
// the same one rounded, or a multiple of it. A bound of each element cannot tell: a grid as coarse
// as float8 hides a factor of 1.3. Over many elements rounding has hardly any.
//
// Of the finer side's numbers f and the coarser's c, with e = c - f, the gain is
//
//   g = sum f e / sum f^2
//
// over the whole tensor, and over the elements of each scale where there are several. It is judged
// in this order, so that no rounding to nearest is ever blamed, whatever the numbers are:
//
//   1. Rounding to nearest: |e| <= h of every element, h half a step of its grid at c, of both
//      sides where both have one. All numbers may be the same there, next to 0, or far from normal.
//      What is rounded on the way as well is allowed: 2^-7 |f| on grids of at most 8 bits (the
//      number, the scale or their quotient in bfloat16, two of them), 2^-11 |f| in bfloat16 (a
//      float16 before it). Digits that are cut off: |c| <= |f| (but for f's own rounding) and
//      |e| <= 2 h of every element.
//   2. Any other rounding of which the errors are independent with mean 0, as stochastic rounding
//      to either neighbour: such an e lies in an interval of length 2 h, so that
//
//        P(|sum f e| >= t) <= 2 exp(-t^2 / (2 sum f^2 h^2))    (Hoeffding, JASA 58 (1963), Thm. 2)
//
//      6 times sqrt(sum f^2 h^2): 3e-8. And sum h^2: where f was rounded so as well, of a number x,
//      E[f e] = -E[(f - x)^2] although E[x e] = 0; and where the density of the numbers falls from
//      step to step of a float's grid, rounding to nearest has a gain of up to 3 times its power,
//      which is a third of h^2: one element that is not to nearest excuses none of the others.
//
// So g is a factor where it is beyond (2) and some element is beyond (1). Numbers that a quantiser
// cuts off at the largest one of the format, farther out on the other side, do not count, nor do
// subnormal numbers of 16 bits or more that are 0 on one side (compare/flushed.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compare/element.h"
#include "compare/find_scales.h"
#include "compare/verdict.h"

namespace tdump::compare {

// Whether a parameter or buffer may be the other side's rounded: of real numbers, with scales on a
// side, or a parameter in two dtypes. Other buffers, tables and statistics, are computed.
bool IsHeldToRounding(const io::Record& a, const io::Record& b);

// One side of a weight: real numbers.
struct RoundedSide {
  Operand numbers;
  NumberFormat format;                // of what was stored
  const Quantised* scales = nullptr;  // none: the numbers are as they were stored
};

struct WrongGain {
  double factor = 1;                          // B is so many times A
  double explained = 0;                       // most |g|
  uint64_t elements = 0;                      // of which it is
  uint64_t all_scales = 1, wrong_scales = 0;  // 0: of the whole tensor
  uint64_t scale = 0;                         // the worst of them
};
// "B is 1.3 times A, within 0.05 explained: 128 elements of scale 3 of 64, and 2 scales more".
std::string TextOf(const WrongGain& gain);

// Of two weights of one dtype, within its bound: holds them to a gain. `explained`: what is that of
// each element, all of them rounded alike; chance is allowed beside it.
void HoldGain(double explained, Comparison* comparison);

// Whether the gain of a whole tensor is more than the noise of that size has by chance, so that it
// is worth reading it again. `more`: gain that something else explains.
bool MayBeScaled(const Metrics& metrics, double more);

// nullopt: rounding explains it. Reads both sides once more. Memory: 56 bytes for each scale, and a
// tile a thread. The result is the same for any number of threads. Precondition: equal shapes.
// Errors: the payload's.
Result<std::optional<WrongGain>> FindWrongGain(const RoundedSide& a, const RoundedSide& b,
                                               double more, unsigned threads = 1);

// The same of a whole tensor whose scales are not at hand, as it is put together of several ranks':
// held to the most that rounding to nearest, and cutting off at the largest number, can make of it.
// `half_step`: of its integers, 0 without any.
std::optional<WrongGain> FindLargeGain(const Metrics& metrics, const NumberFormat& a,
                                       const NumberFormat& b, double half_step, double more);

}  // namespace tdump::compare
