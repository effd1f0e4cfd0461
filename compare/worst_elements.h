// The elements of a pair that are farthest apart. Read for the few pairs that a report shows;
// Measure finds the first one alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compare/diff.h"
#include "compare/metrics.h"
#include "compare/pass_diff.h"
#include "core/status.h"

namespace tdump::compare {

// At most `most`, the worst first: NaN or infinities that meet another value, then the largest
// |a - b|; of equal ones the first. Elements that are equal in value are none of them. One pass
// over both payloads, in tiles. Precondition: equal ElementShape. Errors: kUnsupported for values
// that are no numbers, the payload's (kCorrupt).
Result<std::vector<Worst>> WorstElements(const Operand& a, const Operand& b, size_t most);

// Those of the pair at which two runs part, taken while its pass is open. Not thread-safe. Memory:
// `most` for each rank of the earliest step that has a difference. Time: as much as reading
// kMostElements once.
class WorstCollector {
 public:
  static constexpr uint64_t kMostElements = uint64_t{1} << 29;
  static constexpr size_t kMostPairs = 4096;

  explicit WorstCollector(size_t most) : most_(most) {}

  // Precondition: passes come in order of step.
  void AddPass(const PassDiff& pass, const PassPair& pair);
  // Into the rows of the origins, where they were taken.
  void FillIn(DiffReport* report) const;

 private:
  struct Placed {
    std::string key;  // text of B's
    uint64_t step = 0;
    int32_t rank = 0;
    std::vector<Worst> elements;
  };

  void Take(const PassDiff& pass, const PassPair& pair, const Outcome& outcome);
  void FillIn(std::optional<Origin>* origin) const;

  const size_t most_;
  std::vector<Placed> placed_;
  std::optional<uint64_t> failing_step_, differing_step_, drift_step_;  // the earliest
  uint64_t elements_ = 0;
};

}  // namespace tdump::compare
