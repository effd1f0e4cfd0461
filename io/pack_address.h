// FILE#ORDINAL: how one pass of a packed file is named where a path is expected.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tdump::io {

struct PackAddress {
  std::string file;
  uint64_t ordinal = 0;
};

// None: `path` does not end in `#` and a number.
std::optional<PackAddress> ParsePackAddress(std::string_view path);

}  // namespace tdump::io
