// Gather: the elements of a strided view in row-major order.
#pragma once

#include <cstdint>
#include <vector>

#include "compare/foreign/byte_source.h"
#include "compare/payload_view.h"

namespace tdump::compare::foreign {

// In units.
struct GatherDim {
  uint64_t size, stride;
};

// Reads whole units. Sequential reads are fast: a block of the view (4 MiB at most) is gathered at
// once, walking the storage in the order of the smallest stride. Every element lies in `storage`.
ReadBytes Gather(Bytes storage, uint32_t unit_bytes, uint64_t first, std::vector<GatherDim> dims);

}  // namespace tdump::compare::foreign
