// ValueSummary: hash, digests of tiles and statistics of a payload that comes in pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/statistics.h"
#include "core/types.h"
#include "io/hash.h"
#include "io/statistics.h"

namespace tdump::io {

// Not thread-safe.
class ValueSummary {
 public:
  explicit ValueSummary(const DType& dtype) : accumulator_(dtype) {}
  void Update(std::span<const std::byte> bytes) {
    hasher_.Update(bytes);
    accumulator_.Update(bytes);
  }
  // Of everything fed; once.
  void Finish() {
    hash = hasher_.Finish(&digests);
    statistics = accumulator_.Finish();
  }

  Hash128 hash{};
  std::vector<uint8_t> digests;
  Statistics statistics;

 private:
  TileHasher hasher_;
  StatisticsAccumulator accumulator_;
};

}  // namespace tdump::io
