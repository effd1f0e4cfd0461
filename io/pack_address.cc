#include "io/pack_address.h"

#include <charconv>

namespace tdump::io {

std::optional<PackAddress> ParsePackAddress(std::string_view path) {
  const size_t mark = path.rfind('#');
  if (mark == std::string_view::npos) return std::nullopt;
  PackAddress address{.file = std::string(path.substr(0, mark)), .ordinal = 0};
  const char* end = path.data() + path.size();
  const auto [stop, error] = std::from_chars(path.data() + mark + 1, end, address.ordinal);
  if (error != std::errc() || stop != end) return std::nullopt;
  return address;
}

}  // namespace tdump::io
