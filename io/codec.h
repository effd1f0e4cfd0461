// Codecs of payloads. A payload is stored whole in one codec; its hash and tile digests are those
// of the logical bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace tdump::io {

enum class Codec : uint8_t { kNone = 0, kZstd = 1 };

std::string_view ToString(Codec codec);

// One zstd frame, level 1.
Result<std::vector<std::byte>> Compress(Codec codec, std::span<const std::byte> logical);

// `stored` must expand to exactly out.size() bytes; anything else,
// or an unknown codec, is an error.
Status Decompress(uint8_t codec, std::span<const std::byte> stored, std::span<std::byte> out);

}  // namespace tdump::io
