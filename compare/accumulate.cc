#include "compare/accumulate.h"

#include <algorithm>
#include <array>

namespace tdump::compare {
namespace {

struct ComplexPair {
  bool special_equal = true;  // every part that is special is the same special value on both sides
  bool all_finite = true;
  bool nan_a = false, nan_b = false, inf_a = false, inf_b = false;
  double difference = 0;  // over the parts finite on both sides
  double larger = 0;
};

ComplexPair Inspect(const double* a, const double* b) {
  ComplexPair pair;
  double parts[2] = {0, 0};
  for (int i = 0; i < 2; ++i) {
    pair.nan_a |= std::isnan(a[i]);
    pair.nan_b |= std::isnan(b[i]);
    pair.inf_a |= std::isinf(a[i]);
    pair.inf_b |= std::isinf(b[i]);
    if (std::isfinite(a[i]) && std::isfinite(b[i])) {
      parts[i] = a[i] - b[i];
      continue;
    }
    pair.all_finite = false;
    pair.special_equal &= (std::isnan(a[i]) && std::isnan(b[i])) || a[i] == b[i];
  }
  pair.difference = std::hypot(parts[0], parts[1]);
  if (pair.all_finite) pair.larger = std::max(std::hypot(a[0], a[1]), std::hypot(b[0], b[1]));
  return pair;
}

}  // namespace

void AddEqualReal(std::span<const double> numbers, Sums* s) {
  constexpr size_t kLanes = 8;
  std::array<double, kLanes> square{};
  std::array<uint64_t, kLanes> nan{}, inf{};
  const auto add = [&](size_t lane, double x) {
    const bool is_nan = x != x;
    const bool is_inf = std::abs(x) == std::numeric_limits<double>::infinity();
    nan[lane] += is_nan;
    inf[lane] += is_inf;
    square[lane] += is_nan || is_inf ? 0.0 : x * x;
  };
  size_t i = 0;
  for (; i + kLanes <= numbers.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) add(lane, numbers[i + lane]);
  }
  for (; i < numbers.size(); ++i) add(0, numbers[i]);
  uint64_t nans = 0, infs = 0;
  double squares = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    nans += nan[lane];
    infs += inf[lane];
    squares += square[lane];
  }
  const uint64_t finite = numbers.size() - nans - infs;
  s->nan_a += nans;
  s->nan_b += nans;
  s->inf_a += infs;
  s->inf_b += infs;
  s->within_special += nans + infs;
  s->compared += finite;
  s->finite_a += finite;
  s->finite_b += finite;
  s->square_a += squares;
  s->square_b += squares;
  if (finite > 0) {
    s->max_abs = std::max(s->max_abs, 0.0);
    s->max_excess = std::max(s->max_excess, 0.0);
  }
}

void AddComplex(const double* a, const double* b, uint64_t index, double relative, Sums* s) {
  const ComplexPair pair = Inspect(a, b);
  s->nan_a += pair.nan_a;
  s->nan_b += pair.nan_b;
  s->inf_a += pair.inf_a;
  s->inf_b += pair.inf_b;
  for (int i = 0; i < 2; ++i) {
    if (std::isnan(a[i]) || std::isnan(b[i]) || std::signbit(a[i]) == std::signbit(b[i])) continue;
    ++s->sign_mismatch;
    s->zero_sign_mismatch += a[i] == 0 && b[i] == 0;
  }
  if (!pair.nan_a && !pair.inf_a) {
    ++s->finite_a;
    s->square_a += a[0] * a[0] + a[1] * a[1];
  }
  if (!pair.nan_b && !pair.inf_b) {
    ++s->finite_b;
    s->square_b += b[0] * b[0] + b[1] * b[1];
  }
  if (!pair.special_equal) {
    s->nan_mismatch += pair.nan_a != pair.nan_b;
    s->inf_mismatch += pair.nan_a == pair.nan_b;
    if (s->first_special == Sums::kNowhere) s->first_special = index;
    return;
  }
  if (!pair.all_finite && pair.difference == 0) {
    ++s->within_special;
    return;
  }
  ++s->compared;
  s->sum_abs += pair.difference;
  const double larger = pair.all_finite ? pair.larger : pair.difference;
  if (pair.difference > 0) s->max_rel = std::max(s->max_rel, pair.difference / larger);
  if (pair.difference > s->max_abs) {
    s->max_abs = pair.difference;
    if (pair.difference > 0) s->worst = index;
  }
  s->max_excess = std::max(s->max_excess, pair.difference - relative * pair.larger);
}

bool OutsideComplex(const double* a, const double* b, double relative, double bound_abs) {
  const ComplexPair pair = Inspect(a, b);
  if (!pair.special_equal) return false;  // counted as special
  return pair.difference - relative * pair.larger > bound_abs;
}

}  // namespace tdump::compare
