// Statistics of payloads (core/statistics.h): canonical bytes in, cut anywhere. The result is the
// same whatever the cut, the processor and the number of threads. Dimensions of stride 0 are in a
// payload once, so they count once.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/statistics.h"
#include "core/types.h"

namespace tdump::io {

StatisticsKind StatisticsKindOf(const DType& dtype);

// Takes the payload in pieces, in order. Not thread-safe. Keeps one tile and one merged node for
// each power of two of tiles.
class StatisticsAccumulator {
 public:
  explicit StatisticsAccumulator(const DType& dtype);
  ~StatisticsAccumulator();
  StatisticsAccumulator(const StatisticsAccumulator&) = delete;
  StatisticsAccumulator& operator=(const StatisticsAccumulator&) = delete;

  void Update(std::span<const std::byte> bytes);
  // Of everything fed. Leaves it as if nothing had been.
  Statistics Finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

Statistics StatisticsOf(const DType& dtype, std::span<const std::byte> payload);

}  // namespace tdump::io
