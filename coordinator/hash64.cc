#include "coordinator/hash64.h"

#include <xxhash.h>

#include <cstdio>

namespace tdump::coordinator {

uint64_t Hash64(std::string_view bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::string Hex8(uint64_t hash) {
  char text[16];
  std::snprintf(text, sizeof text, "%08x", static_cast<unsigned>(hash & 0xffffffffu));
  return text;
}

}  // namespace tdump::coordinator
