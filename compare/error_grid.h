// ErrorGrid: where in a tensor the errors lie, as a picture of at most 32 x 64 blocks of its last
// two dimensions. Read for the few pairs that a report draws; Measure does not need it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compare/metrics.h"
#include "core/status.h"

namespace tdump::compare {

inline constexpr uint64_t kGridRows = 32, kGridColumns = 64;

// Block i of n over a dimension of size s: indices floor(i * s / n) to floor((i + 1) * s / n), the
// last one not included. A tensor of one dimension is one row.
struct ErrorGrid {
  size_t dimensions = 0;           // of the tensor; of more than two the largest error is taken
  uint64_t height = 0, width = 0;  // of the last two dimensions, in elements; 1 where stored once
  uint64_t rows = 0, columns = 0;  // blocks
  // Largest |a - b| of each block, row by row; infinite where a NaN or an infinity meets another
  // value. Of 64-bit integers as doubles.
  std::vector<double> max_abs;

  double at(uint64_t row, uint64_t column) const { return max_abs[row * columns + column]; }
};

// One pass over both payloads, in tiles. Precondition: equal ElementShape. Errors: kUnsupported for
// values that are no numbers, the payload's (kCorrupt).
Result<ErrorGrid> MeasureErrorGrid(const Operand& a, const Operand& b);

}  // namespace tdump::compare
