// Which dimensions of a record's payload are stored once: those of stride 0, whose elements are all
// one in memory.
#pragma once

#include <cstddef>

#include "core/types.h"
#include "io/records.h"

namespace tdump::io {

inline bool StoredOnce(const Record& record, size_t dim) {
  return record.layout == Layout::kStrided && dim < record.strides.size() &&
         record.strides[dim] == 0 && record.sizes[dim] > 0;
}

}  // namespace tdump::io
