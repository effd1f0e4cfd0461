// ValueSummary: hash, digests of tiles and statistics of a payload that comes in pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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
  ValueSummary(const DType& dtype, bool with_statistics) {
    if (with_statistics) accumulator_.emplace(dtype);
  }
  void Update(std::span<const std::byte> bytes) {
    hasher_.Update(bytes);
    if (accumulator_) accumulator_->Update(bytes);
  }
  // Of everything fed; once.
  void Finish() {
    hash = hasher_.Finish(&digests);
    if (accumulator_) statistics = accumulator_->Finish();
  }

  Hash128 hash{};
  std::vector<uint8_t> digests;
  std::optional<Statistics> statistics;

 private:
  TileHasher hasher_;
  std::optional<StatisticsAccumulator> accumulator_;
};

}  // namespace tdump::io
