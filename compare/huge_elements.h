// HugeElements: equal elements that are far beyond all others, as a mask of -1e9 or of the lowest
// number of a dtype makes them. They are no numbers that anything computed: beside them every error
// is nothing, in the rms that bounds are relative to as in the SQNR. Internal to compare/.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>

namespace tdump::compare {

// By how much they are: at least so many times as large as any other element that counts, and so
// large in themselves, since what saturates (a softmax, a gate) has ones beside next to nothing.
inline constexpr int kHugeExponents = 10;  // powers of two
// Elements but 0 that are not huge, for there to be huge ones: what is left of a sum that cancels
// is as small beside others.
inline constexpr uint64_t kLeastOthers = 16;

inline constexpr double kNothingHuge = std::numeric_limits<double>::infinity();

// Whether there may be any, from the sums over all pairs. `most_squares`: at least the square of
// the largest element.
bool MayHoldHuge(double most_squares, double sum_of_errors, double sum_of_relative_errors);

// How many elements there are of each magnitude.
class Magnitudes {
 public:
  // Pairs; those that are not finite on both sides do not count.
  void Add(std::span<const double> a, std::span<const double> b);
  void Append(const Magnitudes& next);
  // Whether HugeFrom is known already, whatever follows: what differs is large. `most_squares`: as
  // of MayHoldHuge.
  bool HasNothingHuge(double most_squares) const;
  // The magnitude from which on equal elements are huge; kNothingHuge: none are.
  double HugeFrom() const;

 private:
  std::array<uint64_t, 2048> equal_{};  // by exponent, biased
  uint64_t differing_ = 0;
  uint64_t largest_differing_ = 0;  // exponent of the larger number of a pair, biased
};

}  // namespace tdump::compare
