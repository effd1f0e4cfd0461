// PrecisionHints: whether B looks as if it computed in a lower precision that nobody named.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "compare/pass_diff.h"

namespace tdump::compare {

// From the finest to the coarsest.
inline constexpr std::array<std::string_view, 6> kLowerPrecisions = {"tf32", "fp16",     "bf16",
                                                                     "fp8",  "fp8_e5m2", "fp4"};

// The finest precision whose products would explain an error that looks like rounding: of nearly
// all elements, of most of them small beside what they are, hardly a multiple of the signal, not
// the same in all rows, and not of a few elements. "" where it does not, or none would do, or the
// error is far less than the precision makes. `widened`: of results of bfloat16 many elements may
// be equal (AreWidened), which makes it less.
std::string_view PrecisionLike(const Outcome& outcome, const DType& a, const DType& b,
                               bool widened = false);
// What is noted of such a pair.
std::string PrecisionNote(std::string_view precision);
bool IsPrecisionNote(std::string_view note);

// Over all pairs that fail by themselves, not for what went into them; weights are none. Not
// thread-safe.
class PrecisionHints {
 public:
  void Add(const Outcome& outcome);
  // The finest precision that nearly all of them look like. "" where there is none, or trying it
  // would leave what it does not explain: a pair with an error far beyond, other special values or
  // another shape. A single wrong weight may look like anything to the few operators behind it.
  std::string Note() const;

 private:
  struct Alike {
    uint64_t pairs = 0;
    double most = 0;  // error power
  };
  uint64_t failing_ = 0;
  bool beyond_any_ = false;  // some differ in what no precision changes
  std::array<Alike, kLowerPrecisions.size()> alike_{};
  double farthest_ = 0;  // error power of those that look like none
};

}  // namespace tdump::compare
