// The little of UTF-8 that configuration files, names and terminals need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tdump {

// Length of the well-formed UTF-8 character at the start of `text` (no overlong forms, no
// surrogates), 0 when there is none. Then `*code` is its code point.
size_t DecodeUtf8(std::string_view text, uint32_t* code);
size_t Utf8Length(std::string_view text);
// Offset of the first byte that is not part of a well-formed character; npos when all are.
size_t FirstInvalidUtf8(std::string_view text);
// At most `bytes` bytes of the text, cut where no character goes on.
std::string_view CutUtf8(std::string_view text, size_t bytes);
// Number of characters, counting each byte that does not continue one.
size_t CharactersIn(std::string_view text);

}  // namespace tdump
