#include "io/codec.h"

#include <zstd.h>

#include <cstring>
#include <string>

namespace tdump::io {

std::string_view ToString(Codec codec) {
  switch (codec) {
    case Codec::kNone:
      return "none";
    case Codec::kZstd:
      return "zstd";
  }
  return "unknown";
}

Result<std::vector<std::byte>> Compress(Codec codec, std::span<const std::byte> logical) {
  if (codec == Codec::kNone) return std::vector<std::byte>(logical.begin(), logical.end());
  std::vector<std::byte> stored(ZSTD_compressBound(logical.size()));
  const size_t bytes =
      ZSTD_compress(stored.data(), stored.size(), logical.data(), logical.size(), 1);
  if (ZSTD_isError(bytes)) return Internal(std::string("zstd: ") + ZSTD_getErrorName(bytes));
  stored.resize(bytes);
  return stored;
}

Status Decompress(uint8_t codec, std::span<const std::byte> stored, std::span<std::byte> out) {
  const auto mismatch = [&](const std::string& what) {
    return Corrupt("payload of " + std::to_string(stored.size()) + " stored bytes: " + what +
                   ", expected " + std::to_string(out.size()) + " bytes");
  };
  if (codec == static_cast<uint8_t>(Codec::kNone)) {
    if (stored.size() != out.size()) return mismatch("not compressed");
    if (!out.empty()) std::memcpy(out.data(), stored.data(), out.size());
    return Status();
  }
  if (codec != static_cast<uint8_t>(Codec::kZstd)) {
    return Unsupported("payload codec " + std::to_string(codec));
  }
  const size_t bytes = ZSTD_decompress(out.data(), out.size(), stored.data(), stored.size());
  if (ZSTD_isError(bytes)) return mismatch(std::string("zstd: ") + ZSTD_getErrorName(bytes));
  return bytes == out.size() ? Status() : mismatch("expands to " + std::to_string(bytes));
}

}  // namespace tdump::io
