// The inner loops of Measure: one tile of decoded numbers at a time. Internal to compare/.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

namespace tdump::compare {

// Sums over the elements seen so far. Indices count elements of the walk.
struct Sums {
  static constexpr uint64_t kNowhere = ~uint64_t{0};
  uint64_t within_special = 0;  // the same special value on both sides
  uint64_t compared = 0;
  uint64_t nan_a = 0, nan_b = 0, inf_a = 0, inf_b = 0;
  uint64_t nan_mismatch = 0, inf_mismatch = 0, sign_mismatch = 0, zero_sign_mismatch = 0;
  long double sum_abs = 0;
  double square_a = 0, square_b = 0;
  uint64_t finite_a = 0, finite_b = 0;
  double max_abs = -1, max_rel = 0;
  // Of |a - b| - relative * max(|a|, |b|).
  double max_excess = -std::numeric_limits<double>::infinity();
  unsigned __int128 max_abs_integer = 0;
  uint64_t equal = 0;    // integers: equal numbers
  uint64_t outside = 0;  // second pass
  uint64_t worst = kNowhere, first_special = kNowhere, first_bits = kNowhere;
};

// Two real numbers; T is double, or long double where a 64-bit integer meets a float.
template <class T>
inline void AddReal(T a, T b, uint64_t index, double relative, Sums* s) {
  const bool nan_a = std::isnan(a), nan_b = std::isnan(b);
  const bool inf_a = std::isinf(a), inf_b = std::isinf(b);
  s->nan_a += nan_a;
  s->nan_b += nan_b;
  s->inf_a += inf_a;
  s->inf_b += inf_b;
  if (!nan_a && !nan_b && std::signbit(a) != std::signbit(b)) {
    ++s->sign_mismatch;
    s->zero_sign_mismatch += a == 0 && b == 0;
  }
  if (!nan_a && !inf_a) {
    ++s->finite_a;
    s->square_a += static_cast<double>(a) * static_cast<double>(a);
  }
  if (!nan_b && !inf_b) {
    ++s->finite_b;
    s->square_b += static_cast<double>(b) * static_cast<double>(b);
  }
  if (nan_a || nan_b || inf_a || inf_b) {
    if ((nan_a && nan_b) || a == b) {
      ++s->within_special;
      return;
    }
    s->nan_mismatch += nan_a != nan_b;
    s->inf_mismatch += !nan_a && !nan_b;
    if (s->first_special == Sums::kNowhere) s->first_special = index;
    return;
  }
  ++s->compared;
  const T difference = std::abs(a - b);
  const T larger = std::max(std::abs(a), std::abs(b));
  s->sum_abs += difference;
  if (difference > 0) s->max_rel = std::max(s->max_rel, static_cast<double>(difference / larger));
  if (static_cast<double>(difference) > s->max_abs) {
    s->max_abs = static_cast<double>(difference);
    if (difference > 0) s->worst = index;
  }
  s->max_excess =
      std::max(s->max_excess, static_cast<double>(difference - static_cast<T>(relative) * larger));
}

// Whether a finite pair lies outside: the same expression as max_excess, so both passes agree.
template <class T>
inline bool Outside(T a, T b, double relative, double bound_abs) {
  if (!std::isfinite(a) || !std::isfinite(b)) return false;  // counted as special
  const T difference = std::abs(a - b);
  const T larger = std::max(std::abs(a), std::abs(b));
  return static_cast<double>(difference - static_cast<T>(relative) * larger) > bound_abs;
}

inline void AddInteger(__int128 a, __int128 b, uint64_t index, Sums* s) {
  ++s->compared;
  s->sign_mismatch += (a < 0) != (b < 0);
  s->square_a += static_cast<double>(a) * static_cast<double>(a);
  s->square_b += static_cast<double>(b) * static_cast<double>(b);
  if (a == b) {
    ++s->equal;
    return;
  }
  const unsigned __int128 difference =
      a > b ? static_cast<unsigned __int128>(a - b) : static_cast<unsigned __int128>(b - a);
  const __int128 larger = std::max(a < 0 ? -a : a, b < 0 ? -b : b);
  s->sum_abs += static_cast<long double>(difference);
  s->max_rel = std::max(s->max_rel, static_cast<double>(difference) / static_cast<double>(larger));
  if (difference > s->max_abs_integer) {
    s->max_abs_integer = difference;
    s->worst = index;
  }
}

// A tile that is equal bit by bit: only special values and magnitudes are of interest. Eight lanes,
// so that it vectorises.
void AddEqualReal(std::span<const double> numbers, Sums* s);

// Two complex numbers as (re, im). Special values are matched part by part; |a - b| is the modulus.
void AddComplex(const double* a, const double* b, uint64_t index, double relative, Sums* s);
bool OutsideComplex(const double* a, const double* b, double relative, double bound_abs);

}  // namespace tdump::compare
