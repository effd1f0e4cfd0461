// Byte order of a file and of this machine.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace tdump::io {

template <class T>
requires std::is_integral_v<T>
constexpr T SwapBytes(T value) {
  if constexpr (sizeof(T) == 1) {
    return value;
  } else if constexpr (sizeof(T) == 2) {
    return static_cast<T>(__builtin_bswap16(static_cast<uint16_t>(value)));
  } else if constexpr (sizeof(T) == 4) {
    return static_cast<T>(__builtin_bswap32(static_cast<uint32_t>(value)));
  } else {
    static_assert(sizeof(T) == 8);
    return static_cast<T>(__builtin_bswap64(static_cast<uint64_t>(value)));
  }
}

// Swaps every `width` bytes in place; a shorter rest stays.
inline void SwapEach(std::span<std::byte> bytes, size_t width) {
  if (width < 2) return;
  for (size_t at = 0; at + width <= bytes.size(); at += width) {
    for (size_t i = 0; i < width / 2; ++i) std::swap(bytes[at + i], bytes[at + width - 1 - i]);
  }
}

}  // namespace tdump::io
