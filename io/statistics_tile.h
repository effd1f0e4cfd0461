// The moments and counts of one tile, with whatever vectors the processor has. The same bits as
// MomentsOfTile (core/statistics_tile.h), tens of times faster.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/statistics_tile.h"

namespace tdump::io {

enum class RealType : uint8_t { kFloat32, kFloat64, kFloat16, kBFloat16 };

// Of `elements` <= kTileElements numbers, at any address. Adds to `counts`. Thread-safe. The caller
// sees to the rounding mode and that subnormals are on.
TileMoments TileOf(RealType type, const std::byte* values, int elements, ValueCounts* counts);

// The kind of vectors that TileOf() uses, as Highway's HWY_TARGET.
int64_t TileTarget();

}  // namespace tdump::io
