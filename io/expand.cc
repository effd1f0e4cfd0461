// ExpandPayload: undoes "stride-0 dimensions are stored once".
#include <cstring>

#include "io/pass_reader.h"
#include "io/stored_once.h"

namespace tdump::io {

std::vector<std::byte> ExpandPayload(const Record& record, std::span<const std::byte> canonical) {
  // From the last dimension to the first: each block of the dimensions behind
  // is repeated where the stride is 0.
  std::vector<std::byte> expanded(canonical.begin(), canonical.end());
  uint64_t block = record.dtype.unit_bytes();
  for (size_t dim = record.sizes.size(); dim-- > 0;) {
    const auto size = static_cast<uint64_t>(record.sizes[dim]);
    if (!StoredOnce(record, dim)) {
      block *= size;
      continue;
    }
    if (block == 0) return {};
    const uint64_t blocks = expanded.size() / block;
    std::vector<std::byte> repeated(expanded.size() * size);
    for (uint64_t i = 0; i < blocks * size; ++i) {
      std::memcpy(repeated.data() + i * block, expanded.data() + i / size * block, block);
    }
    expanded = std::move(repeated);
    block *= size;
  }
  return expanded;
}

}  // namespace tdump::io
