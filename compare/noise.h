// NoiseModel: how far a run is from a repeat of itself, operator by operator (`--noise RUN_A2`).
// What differs by no more than that says nothing about another run.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "compare/metrics.h"
#include "core/key.h"

namespace tdump::compare {

// The largest ErrorLevel (compare/bounds.h) over the repeats, steps, ranks and calls.
struct NoiseLevel {
  double peak = 0, power = 0;
  uint64_t pairs = 0;
};

// Filled by one thread, then read by any.
class NoiseModel {
 public:
  // `bits_equal`: known to be equal, whether read or not. Pairs of which no values are known are
  // not added. Where one side is all zeros there is no level: such a pair is counted only.
  void Add(const std::string& name, const Key& key, bool bits_equal, const Metrics& metrics);
  bool empty() const { return levels_.empty(); }
  size_t size() const { return levels_.size(); }
  // nullptr: the repeats do not have it.
  const NoiseLevel* Find(const std::string& name, const Key& key) const;

 private:
  std::map<std::string, NoiseLevel> levels_;  // by name, role and argument
};

// Allowed beyond what the repeats showed: a factor on the largest error seen. A maximum over few
// repeats is low; the factor is that of the default bound.
inline constexpr double kNoiseFactor = 4;

}  // namespace tdump::compare
