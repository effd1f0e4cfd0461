#include "core/utf8.h"

#include <algorithm>

namespace tdump {

size_t DecodeUtf8(std::string_view text, uint32_t* code) {
  if (text.empty()) return 0;
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) {
    *code = lead;
    return 1;
  }
  const size_t length = lead >= 0xF0 && lead < 0xF5   ? 4
                        : lead >= 0xE0 && lead < 0xF0 ? 3
                        : lead >= 0xC2 && lead < 0xE0 ? 2
                                                      : 0;
  if (length == 0 || text.size() < length) return 0;
  *code = lead & (0xFF >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) >> 6) != 2) return 0;
    *code = *code << 6 | (byte(i) & 0x3F);
  }
  const bool overlong = (length == 3 && *code < 0x800) || (length == 4 && *code < 0x10000);
  const bool surrogate = *code >= 0xD800 && *code < 0xE000;
  return overlong || surrogate || *code > 0x10FFFF ? 0 : length;
}

size_t Utf8Length(std::string_view text) {
  uint32_t ignored = 0;
  return DecodeUtf8(text, &ignored);
}

size_t FirstInvalidUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = Utf8Length(text.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return std::string_view::npos;
}

std::string_view CutUtf8(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) >> 6) == 2) --bytes;
  return text.substr(0, bytes);
}

size_t CharactersIn(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c >> 6) != 2; });
}

}  // namespace tdump
