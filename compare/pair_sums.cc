#include "compare/pair_sums.h"

#include <algorithm>
#include <cmath>

namespace tdump::compare {
namespace {

// |e| in ULP of the larger number, as pair_tile.cc has it. The modulus of a complex number may be
// infinite where its parts are not.
double UlpsOf(double magnitude, double larger, const UlpScale& ulp) {
  int exponent = ulp.least_exponent;
  if (larger > 0) exponent = std::max(exponent, std::isinf(larger) ? 1024 : std::ilogb(larger));
  return std::ldexp(magnitude, ulp.mantissa_bits - exponent);
}

size_t UlpBinOf(double magnitude, double ulps) {
  if (magnitude == 0) return 0;
  if (ulps < 1) return 1;
  return static_cast<size_t>(std::min(std::ilogb(std::min(ulps, 0x1p1000)) + 2, kUlpBins - 1));
}

// Of a tile: index of the first pair with the largest |a - b|, which is `largest`.
size_t FirstError(const Reals& a, const Reals& b, size_t n, double largest) {
  double left[kPairTile], right[kPairTile];
  DecodeReal(a, std::span(left, n));
  DecodeReal(b, std::span(right, n));
  size_t at = 0;
  while (at + 1 < n && std::abs(right[at] - left[at]) != largest) ++at;
  return at;
}

// Index of the first pair with the largest |a - b| / max(|a|, |b|), as pair_tile.cc has it.
size_t FirstRelative(const Reals& a, const Reals& b, size_t n) {
  double left[kPairTile], right[kPairTile];
  DecodeReal(a, std::span(left, n));
  DecodeReal(b, std::span(right, n));
  size_t at = 0;
  double largest = 0;
  for (size_t i = 0; i < n; ++i) {
    const double larger = std::max(std::abs(left[i]), std::abs(right[i]));
    const double ratio = std::abs(right[i] - left[i]) / std::max(larger, 0x1p-1022);
    if (ratio <= largest) continue;
    largest = ratio;
    at = i;
  }
  return at;
}

// Of a sum of squares: beyond what vectors add up exactly enough.
bool IsFar(double squares) { return squares != 0 && (squares > 0x1p960 || squares < 0x1p-960); }

struct ComplexPair {
  bool special_equal = true;  // every part that is special is the same special value on both sides
  bool all_finite = true;
  bool nan_a = false, nan_b = false, inf_a = false, inf_b = false;
  long double difference = 0;  // over the parts finite on both sides
  long double larger = 0;
};

// The modulus may be beyond double where the parts are not.
long double ModulusOf(long double re, long double im) {
  const double modulus = std::hypot(static_cast<double>(re), static_cast<double>(im));
  return std::isfinite(modulus) ? modulus : std::hypot(re, im);
}

ComplexPair Inspect(const double* a, const double* b) {
  ComplexPair pair;
  long double parts[2] = {0, 0};
  for (int i = 0; i < 2; ++i) {
    pair.nan_a |= std::isnan(a[i]);
    pair.nan_b |= std::isnan(b[i]);
    pair.inf_a |= std::isinf(a[i]);
    pair.inf_b |= std::isinf(b[i]);
    if (std::isfinite(a[i]) && std::isfinite(b[i])) {
      const double part = a[i] - b[i];
      parts[i] = std::isfinite(part) ? part : static_cast<long double>(a[i]) - b[i];
      continue;
    }
    pair.all_finite = false;
    pair.special_equal &= (std::isnan(a[i]) && std::isnan(b[i])) || a[i] == b[i];
  }
  pair.difference = ModulusOf(parts[0], parts[1]);
  if (pair.all_finite) pair.larger = std::max(ModulusOf(a[0], a[1]), ModulusOf(b[0], b[1]));
  return pair;
}

// By how much the pair is beyond a relative bound.
double ExcessOf(const ComplexPair& pair, double relative) {
  return static_cast<double>(pair.difference - relative * pair.larger);
}

bool IsOutside(long double a, long double b, double relative, double absolute) {
  if (!std::isfinite(a) || !std::isfinite(b)) return false;  // counted as special
  const long double larger = std::max(std::abs(a), std::abs(b));
  return static_cast<double>(std::abs(a - b) - relative * larger) > absolute;
}

}  // namespace

void PairSums::Append(const PairSums& next) {
  for (uint64_t PairSums::*count :
       {&PairSums::bits_equal, &PairSums::compared, &PairSums::within_special, &PairSums::nan_a,
        &PairSums::nan_b, &PairSums::inf_a, &PairSums::inf_b, &PairSums::nan_mismatch,
        &PairSums::inf_mismatch, &PairSums::sign_mismatch, &PairSums::zero_sign_mismatch,
        &PairSums::finite_a, &PairSums::finite_b}) {
    this->*count += next.*count;
  }
  for (long double PairSums::*sum :
       {&PairSums::square_a, &PairSums::square_b, &PairSums::error, &PairSums::abs_error,
        &PairSums::square_error, &PairSums::product, &PairSums::relative,
        &PairSums::compared_square_a, &PairSums::compared_square_b}) {
    this->*sum += next.*sum;
  }
  if (next.max_abs > max_abs || next.max_abs_integer > max_abs_integer) worst = next.worst;
  if (next.max_rel > max_rel) worst_relative = next.worst_relative;
  for (double PairSums::*largest : {&PairSums::max_abs, &PairSums::max_rel, &PairSums::max_ulp,
                                    &PairSums::max_excess, &PairSums::most_squares}) {
    this->*largest = std::max(this->*largest, next.*largest);
  }
  max_abs_integer = std::max(max_abs_integer, next.max_abs_integer);
  first_special = std::min(first_special, next.first_special);
  first_bits = std::min(first_bits, next.first_bits);
}

void PairCounts::Add(const PairCounts& other) {
  for (size_t bin = 0; bin < ulp.size(); ++bin) ulp[bin] += other.ulp[bin];
  bins.Add(other.bins);
}

void PairCounts::Clear() {
  ulp = {};
  bins.Clear();
}

void PairAdder::AddReals(std::span<const double> a, std::span<const double> b, uint64_t first) {
  for (size_t done = 0; done < a.size(); done += kPairTile) {
    const size_t n = std::min(kPairTile, a.size() - done);
    const auto x = a.subspan(done, n), y = b.subspan(done, n);
    const Reals left = Reals::Of(x), right = Reals::Of(y);
    const PairMoments m = MomentsOf(left, right, n, bound_, ulp_, &scratch_);
    if (m.usable) {
      AddMoments(m, left, right, n, first + done);
    } else {
      for (size_t i = 0; i < n; ++i) AddReal(x[i], y[i], first + done + i);
    }
  }
}

bool PairAdder::AddTile(const Reals& a, const Reals& b, size_t n, uint64_t first) {
  if (a.type == RealType::kBFloat16 && b.type == a.type && AddBFloat16(a, b, n, first)) return true;
  const PairMoments m = MomentsOf(a, b, n, bound_, ulp_, &scratch_);
  if (m.usable) AddMoments(m, a, b, n, first);
  return m.usable;
}

// False, and nothing is added: not for the loop of bfloat16.
bool PairAdder::AddBFloat16(const Reals& a, const Reals& b, size_t n, uint64_t first) {
  const bool fits = n % kBFloat16Block == 0 && ulp_ == kBFloat16Ulp && IsBoundForBFloat16(bound_);
  if (!fits) return false;
  const BFloat16Look look = LookAtBFloat16(a.bytes, b.bytes, n);
  if (!look.usable) return false;
  const TileChannels channels = channels_.FitTiles() ? channels_.ForTile(first) : TileChannels();
  const PairMoments m = MomentsOfBFloat16(a.bytes, b.bytes, n, bound_, look, channels,
                                          counts_.bins.Counters(n), &scratch_);
  AddSums(m, a, b, n, first);
  PairSums& s = sums_;
  if (m.max_excess * (1 + kBFloat16ExcessOff) > s.max_excess)
    s.max_excess = std::max(s.max_excess, MaxExcessOf(a, b, n, bound_));
  counts_.bins.Cover(m.least_bin, m.max_abs);
  if (!channels_.FitTiles()) {
    SubtractEach(a, b, n, scratch_.error);
    channels_.Add(scratch_.error, n, first);
  }
  return true;
}

void PairAdder::AddMoments(const PairMoments& m, const Reals& a, const Reals& b, size_t n,
                           uint64_t first) {
  AddSums(m, a, b, n, first);
  sums_.max_excess = std::max(sums_.max_excess, m.max_excess);
  counts_.bins.Add(std::span(scratch_.bin, n), m.least_bin, m.max_abs);
  if (!channels_.empty()) channels_.Add(scratch_.error, n, first);
}

// All but the largest excess, the bins of errors and the sums by channel.
void PairAdder::AddSums(const PairMoments& m, const Reals& a, const Reals& b, size_t n,
                        uint64_t first) {
  PairSums& s = sums_;
  s.compared += n;
  s.finite_a += n;
  s.finite_b += n;
  s.most_squares = std::max(s.most_squares, m.square_a);
  s.square_a += m.square_a;
  s.square_b += m.square_b;
  s.compared_square_a += m.square_a;
  s.compared_square_b += m.square_b;
  s.error += m.error;
  s.abs_error += m.abs_error;
  s.square_error += m.square_error;
  s.product += m.product;
  s.relative += m.relative;
  if (m.max_relative > std::max(s.max_rel, max_rel_before_))
    s.worst_relative = first + FirstRelative(a, b, n);
  s.max_rel = std::max(s.max_rel, m.max_relative);
  if (m.max_ulp_bin >= ErrorBins::BinOf(std::max(s.max_ulp, max_ulp_before_)))
    s.max_ulp = std::max(s.max_ulp, MaxUlpsOf(a, b, n, ulp_));
  s.sign_mismatch += m.sign_mismatches;
  s.zero_sign_mismatch += m.zero_sign_mismatches;
  if (m.max_abs > s.max_abs) {
    s.max_abs = m.max_abs;
    if (m.max_abs > 0) s.worst = first + FirstError(a, b, n, m.max_abs);
  }
  CountUlps(scratch_.ulp_bin, n, counts_.ulp.data());
}

bool PairAdder::AddEqualTile(const Reals& numbers, size_t n) {
  PairSums& s = sums_;
  const double squares = SquaresOf(numbers, n);
  if (!std::isfinite(squares) || IsFar(squares)) return false;
  if (squares == 0 && std::any_of(numbers.bytes, numbers.bytes + n * BytesOf(numbers.type),
                                  [](std::byte byte) { return (byte << 1) != std::byte{0}; }))
    return false;
  s.most_squares = std::max(s.most_squares, squares);
  s.bits_equal += n;
  s.compared += n;
  s.finite_a += n;
  s.finite_b += n;
  for (long double* sum :
       {&s.square_a, &s.square_b, &s.compared_square_a, &s.compared_square_b, &s.product})
    *sum += squares;
  counts_.ulp[0] += n;
  s.max_abs = std::max(s.max_abs, 0.0);
  return true;
}

void PairAdder::LeaveOut(uint64_t count) {
  PairSums& s = sums_;
  s.within_special += count;
  s.compared -= count;
  s.finite_a -= count;
  s.finite_b -= count;
  counts_.ulp[0] -= count;
}

// Of a finite pair: everything that stands on the error alone.
void PairAdder::AddError(double error, double magnitude, double larger, uint64_t index) {
  PairSums& s = sums_;
  ++s.compared;
  if (magnitude > 0) counts_.bins.Add(magnitude);
  const double ulps = UlpsOf(magnitude, larger, ulp_);
  s.max_ulp = std::max(s.max_ulp, ulps);
  ++counts_.ulp[UlpBinOf(magnitude, ulps)];
  if (!channels_.empty()) channels_.Add(index, error);
}

void PairAdder::AddRelative(double relative, uint64_t index) {
  PairSums& s = sums_;
  s.relative += relative;
  if (!(relative > s.max_rel)) return;  // NaN is no maximum
  s.max_rel = relative;
  s.worst_relative = index;
}

template <class T>
void PairAdder::AddMagnitude(T difference, T larger, uint64_t index) {
  PairSums& s = sums_;
  const auto magnitude = static_cast<double>(difference);
  if (difference > 0) {
    const auto relative = static_cast<double>(difference / larger);
    AddRelative(relative, index);
  }
  if (magnitude > s.max_abs) {
    s.max_abs = magnitude;
    if (difference > 0) s.worst = index;
  }
}

template <class T>
void PairAdder::AddReal(T a, T b, uint64_t index) {
  PairSums& s = sums_;
  const bool nan_a = std::isnan(a), nan_b = std::isnan(b);
  const bool inf_a = std::isinf(a), inf_b = std::isinf(b);
  s.nan_a += nan_a;
  s.nan_b += nan_b;
  s.inf_a += inf_a;
  s.inf_b += inf_b;
  if (!nan_a && !nan_b && std::signbit(a) != std::signbit(b)) {
    ++s.sign_mismatch;
    s.zero_sign_mismatch += a == 0 && b == 0;
  }
  const long double x = a, y = b;
  const bool finite_a = !nan_a && !inf_a, finite_b = !nan_b && !inf_b;
  s.finite_a += finite_a;
  s.finite_b += finite_b;
  if (finite_a) s.square_a += x * x;
  if (finite_b) s.square_b += y * y;
  if (finite_a && finite_b) return AddFinite(a, b, index);
  if ((nan_a && nan_b) || a == b) {
    ++s.within_special;
    return;
  }
  s.nan_mismatch += nan_a != nan_b;
  s.inf_mismatch += !nan_a && !nan_b;
  if (s.first_special == PairSums::kNowhere) s.first_special = index;
}

template <class T>
void PairAdder::AddFinite(T a, T b, uint64_t index) {
  PairSums& s = sums_;
  const long double x = a, y = b, error = y - x;
  s.error += error;
  s.abs_error += std::abs(error);
  s.square_error += error * error;
  s.product += x * y;
  s.compared_square_a += x * x;
  s.compared_square_b += y * y;
  s.most_squares = std::max(s.most_squares, static_cast<double>(x * x));
  const T difference = std::abs(a - b);
  const T larger = std::max(std::abs(a), std::abs(b));
  if (std::isinf(difference))
    AddMagnitude<long double>(std::abs(error), larger, index);  // of finite numbers
  else
    AddMagnitude(difference, larger, index);
  s.max_excess =
      std::max(s.max_excess, static_cast<double>(difference - static_cast<T>(bound_) * larger));
  AddError(static_cast<double>(error), static_cast<double>(difference), static_cast<double>(larger),
           index);
}

void PairAdder::AddWide(std::span<const long double> a, std::span<const long double> b,
                        uint64_t first) {
  for (size_t i = 0; i < a.size(); ++i) AddReal(a[i], b[i], first + i);
}

void PairAdder::AddIntegers(std::span<const __int128> a, std::span<const __int128> b,
                            uint64_t first) {
  PairSums& s = sums_;
  for (size_t i = 0; i < a.size(); ++i) {
    const __int128 x = a[i], y = b[i];
    s.sign_mismatch += (x < 0) != (y < 0);
    const auto left = static_cast<long double>(x), right = static_cast<long double>(y);
    s.square_a += left * left;
    s.square_b += right * right;
    s.product += left * right;
    s.compared_square_a += left * left;
    s.compared_square_b += right * right;
    const unsigned __int128 difference =
        x > y ? static_cast<unsigned __int128>(x - y) : static_cast<unsigned __int128>(y - x);
    const __int128 larger = std::max(x < 0 ? -x : x, y < 0 ? -y : y);
    const auto magnitude = static_cast<long double>(difference);
    const long double error = y < x ? -magnitude : magnitude;
    s.error += error;
    s.abs_error += magnitude;
    s.square_error += magnitude * magnitude;
    if (difference != 0) {
      const auto relative = static_cast<double>(magnitude / static_cast<long double>(larger));
      AddRelative(relative, first + i);
    }
    if (difference > s.max_abs_integer) {
      s.max_abs_integer = difference;
      s.worst = first + i;
    }
    ++s.finite_a;
    ++s.finite_b;
    // A unit in the last place of an integer is 1.
    const auto ulps = static_cast<double>(difference);
    ++s.compared;
    if (ulps > 0) counts_.bins.Add(ulps);
    s.max_ulp = std::max(s.max_ulp, ulps);
    ++counts_.ulp[UlpBinOf(ulps, ulps)];
    if (!channels_.empty()) channels_.Add(first + i, static_cast<double>(error));
  }
}

void PairAdder::AddComplexes(std::span<const double> a, std::span<const double> b, uint64_t first) {
  for (size_t i = 0; i + 1 < a.size(); i += 2) AddComplex(&a[i], &b[i], first + i / 2);
}

void PairAdder::AddComplex(const double* a, const double* b, uint64_t index) {
  PairSums& s = sums_;
  const ComplexPair pair = Inspect(a, b);
  s.nan_a += pair.nan_a;
  s.nan_b += pair.nan_b;
  s.inf_a += pair.inf_a;
  s.inf_b += pair.inf_b;
  for (int i = 0; i < 2; ++i) {
    if (std::isnan(a[i]) || std::isnan(b[i]) || std::signbit(a[i]) == std::signbit(b[i])) continue;
    ++s.sign_mismatch;
    s.zero_sign_mismatch += a[i] == 0 && b[i] == 0;
  }
  const auto square = [](const double* z) {
    return static_cast<long double>(z[0]) * z[0] + static_cast<long double>(z[1]) * z[1];
  };
  const bool finite_a = !pair.nan_a && !pair.inf_a, finite_b = !pair.nan_b && !pair.inf_b;
  s.finite_a += finite_a;
  s.finite_b += finite_b;
  if (finite_a) s.square_a += square(a);
  if (finite_b) s.square_b += square(b);
  if (!pair.special_equal) {
    s.nan_mismatch += pair.nan_a != pair.nan_b;
    s.inf_mismatch += pair.nan_a == pair.nan_b;
    if (s.first_special == PairSums::kNowhere) s.first_special = index;
    return;
  }
  if (!pair.all_finite && pair.difference == 0) {
    ++s.within_special;
    return;
  }
  s.abs_error += pair.difference;
  s.square_error += pair.difference * pair.difference;
  if (pair.all_finite) {
    s.compared_square_a += square(a);
    s.compared_square_b += square(b);
    s.product += static_cast<long double>(a[0]) * b[0] + static_cast<long double>(a[1]) * b[1];
  }
  const long double larger = pair.all_finite ? pair.larger : pair.difference;
  const auto magnitude = static_cast<double>(pair.difference);
  const auto size = static_cast<double>(larger);
  if (std::isfinite(magnitude) && std::isfinite(size))
    AddMagnitude(magnitude, size, index);
  else
    AddMagnitude(pair.difference, larger, index);  // of finite numbers
  s.max_excess = std::max(s.max_excess, ExcessOf(pair, bound_));
  AddError(0, magnitude, size, index);
}

uint64_t CountOutsideReals(std::span<const double> a, std::span<const double> b, double relative,
                           double absolute) {
  uint64_t outside = 0;
  for (size_t done = 0; done < a.size(); done += kPairTile) {
    const size_t n = std::min(kPairTile, a.size() - done);
    outside +=
        CountOutside(Reals::Of(a.subspan(done)), Reals::Of(b.subspan(done)), n, relative, absolute);
  }
  return outside;
}

uint64_t CountOutsideWide(std::span<const long double> a, std::span<const long double> b,
                          double relative, double absolute) {
  uint64_t outside = 0;
  for (size_t i = 0; i < a.size(); ++i) outside += IsOutside(a[i], b[i], relative, absolute);
  return outside;
}

uint64_t CountOutsideComplexes(std::span<const double> a, std::span<const double> b,
                               double relative, double absolute) {
  uint64_t outside = 0;
  for (size_t i = 0; i + 1 < a.size(); i += 2) {
    const ComplexPair pair = Inspect(&a[i], &b[i]);
    // Special values that differ are counted as special.
    if (pair.special_equal) outside += ExcessOf(pair, relative) > absolute;
  }
  return outside;
}

}  // namespace tdump::compare
