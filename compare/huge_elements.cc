#include "compare/huge_elements.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tdump::compare {
namespace {

constexpr uint64_t kBias = 1023, kInfinity = 2047;

uint64_t ExponentOf(double x) { return std::bit_cast<uint64_t>(x) >> 52 & kInfinity; }

}  // namespace

// Where all pairs that differ are 2^kHugeExponents below the largest element, so is each error
// beside its own size.
bool MayHoldHuge(double most_squares, double sum_of_errors, double sum_of_relative_errors) {
  const double largest = std::sqrt(most_squares);
  return sum_of_errors > 0 && largest >= std::exp2(kHugeExponents) &&
         sum_of_relative_errors * largest >= sum_of_errors * std::exp2(kHugeExponents);
}

void Magnitudes::Add(std::span<const double> a, std::span<const double> b) {
  for (size_t i = 0; i < a.size(); ++i) {
    const uint64_t exponent = std::max(ExponentOf(a[i]), ExponentOf(b[i]));
    if (exponent == kInfinity) continue;
    if (a[i] == b[i]) {
      equal_[exponent] += a[i] != 0;
      continue;
    }
    ++differing_;
    largest_differing_ = std::max(largest_differing_, exponent);
  }
}

void Magnitudes::Append(const Magnitudes& next) {
  for (size_t i = 0; i < equal_.size(); ++i) equal_[i] += next.equal_[i];
  differing_ += next.differing_;
  largest_differing_ = std::max(largest_differing_, next.largest_differing_);
}

bool Magnitudes::HasNothingHuge(double most_squares) const {
  // The square root may be rounded down to the exponent below.
  return differing_ > 0 &&
         largest_differing_ + kHugeExponents > ExponentOf(std::sqrt(most_squares));
}

double Magnitudes::HugeFrom() const {
  if (differing_ == 0) return kNothingHuge;
  uint64_t others = differing_, largest = largest_differing_;
  for (uint64_t exponent = 0; exponent <= largest; ++exponent) others += equal_[exponent];
  for (uint64_t exponent = largest + 1; exponent < kInfinity; ++exponent) {
    if (equal_[exponent] == 0) continue;
    // What has the exponent `largest` is below 2^(largest + 1).
    const bool is_huge = exponent > largest + kHugeExponents && exponent >= kBias + kHugeExponents;
    if (is_huge && others >= kLeastOthers) return std::exp2(static_cast<int>(exponent - kBias));
    if (is_huge) return kNothingHuge;
    others += equal_[exponent];
    largest = exponent;
  }
  return kNothingHuge;
}

}  // namespace tdump::compare
