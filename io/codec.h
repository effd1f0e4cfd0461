// Codecs of payloads. Hash and tile digests of a payload are those of its logical bytes, whatever
// codec it is stored in.
//
// Codec 2, "blocks": the payload is cut into blocks of kCodecBlock bytes, the last possibly
// shorter, each a Blosc 1 chunk of its own (zstd, after shuffling bytes or bits where that helps),
// so that any part can be read without the rest. Stored bytes: the end of each chunk, counted from
// the first chunk, as u64; then the chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace tdump::io {

enum class Codec : uint8_t { kNone = 0, kBlocks = 2 };  // 1 was never written

std::string_view ToString(Codec codec);

inline constexpr uint64_t kCodecBlock = 256 * 1024;  // a multiple of the hash's tile
inline constexpr uint64_t CodecBlocks(uint64_t logical) {
  return (logical + kCodecBlock - 1) / kCodecBlock;
}

// A payload in blocks. Makes one block at a time, so memory is bounded whatever the payload's size:
// what is larger than kHeld is compressed twice, once for the sizes and once to be written.
class BlockCompressor {
 public:
  static constexpr uint64_t kHeld = 16ull << 20;

  // `width`: bytes of a number. The bytes outlive the compressor.
  BlockCompressor(std::span<const std::byte> logical, uint32_t width);

  // Finds the stored size. False: it does not shrink, and is better stored as it is.
  bool Shrinks();
  uint64_t stored_bytes() const { return stored_bytes_; }
  // After Shrinks(): hands out the stored bytes, in order, in pieces.
  Status Write(const std::function<Status(std::span<const std::byte>)>& write);

 private:
  std::span<const std::byte> Block(uint64_t block) const;
  bool ChooseFilter();
  // Into chunk_; false: it went wrong.
  bool Compress(uint64_t block, int filter);

  const std::span<const std::byte> logical_;
  const uint32_t width_;
  int filter_ = 0;
  std::vector<uint64_t> ends_;
  std::vector<std::byte> chunk_;
  std::vector<std::byte> held_;
  uint64_t stored_bytes_ = 0;
};

// One chunk of codec 2. It must give exactly out.size() bytes; anything else is an error.
Status DecompressChunk(std::span<const std::byte> chunk, std::span<std::byte> out);

}  // namespace tdump::io
