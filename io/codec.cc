#include "io/codec.h"

#include <blosc.h>

#include <algorithm>
#include <string>

namespace tdump::io {
namespace {

constexpr int kLevel = 1;
// Less than this saved of the first block is not worth it.
constexpr uint64_t kLeastSaved = 64;  // 1/64

}  // namespace

std::string_view ToString(Codec codec) {
  switch (codec) {
    case Codec::kNone:
      return "none";
    case Codec::kBlocks:
      return "blocks";
  }
  return "unknown";
}

BlockCompressor::BlockCompressor(std::span<const std::byte> logical, uint32_t width)
    : logical_(logical), width_(std::clamp<uint32_t>(width, 1, BLOSC_MAX_TYPESIZE)) {}

std::span<const std::byte> BlockCompressor::Block(uint64_t block) const {
  const uint64_t from = block * kCodecBlock;
  return logical_.subspan(from, std::min(kCodecBlock, logical_.size() - from));
}

bool BlockCompressor::Compress(uint64_t block, int filter) {
  const auto bytes = Block(block);
  chunk_.resize(bytes.size() + BLOSC_MAX_OVERHEAD);
  const int made =
      blosc_compress_ctx(kLevel, filter, width_, bytes.size(), bytes.data(), chunk_.data(),
                         chunk_.size(), BLOSC_ZSTD_COMPNAME, bytes.size(), /*threads=*/1);
  if (made <= 0) return false;
  chunk_.resize(static_cast<size_t>(made));
  return true;
}

// By the first block: bytes of like place, bits of like place, or neither.
bool BlockCompressor::ChooseFilter() {
  uint64_t best = ~uint64_t{0};
  for (int filter : {BLOSC_NOSHUFFLE, BLOSC_SHUFFLE, BLOSC_BITSHUFFLE}) {
    if (filter == BLOSC_SHUFFLE && width_ == 1) continue;
    if (!Compress(0, filter)) return false;
    if (chunk_.size() >= best) continue;
    best = chunk_.size();
    filter_ = filter;
  }
  const uint64_t plain = Block(0).size();
  return best + sizeof(uint64_t) + plain / kLeastSaved < plain;
}

bool BlockCompressor::Shrinks() {
  if (logical_.empty() || !ChooseFilter()) return false;
  const bool hold = logical_.size() <= kHeld;
  const uint64_t blocks = CodecBlocks(logical_.size());
  uint64_t end = 0;
  for (uint64_t block = 0; block < blocks; ++block) {
    if (!Compress(block, filter_)) return false;
    end += chunk_.size();
    ends_.push_back(end);
    if (hold) held_.insert(held_.end(), chunk_.begin(), chunk_.end());
  }
  stored_bytes_ = blocks * sizeof(uint64_t) + end;
  return stored_bytes_ < logical_.size();
}

Status BlockCompressor::Write(const std::function<Status(std::span<const std::byte>)>& write) {
  TDUMP_RETURN_IF_ERROR(write(std::as_bytes(std::span(ends_))));
  if (!held_.empty()) return write(held_);
  uint64_t before = 0;
  for (uint64_t block = 0; block < ends_.size(); ++block) {
    // The same bytes again: the sizes are those found before.
    if (!Compress(block, filter_) || chunk_.size() != ends_[block] - before)
      return Internal("a block did not compress to its size");
    before = ends_[block];
    TDUMP_RETURN_IF_ERROR(write(chunk_));
  }
  return Status();
}

Status DecompressChunk(std::span<const std::byte> chunk, std::span<std::byte> out) {
  const auto bad = [&](const std::string& what) {
    return Corrupt("compressed block of " + std::to_string(chunk.size()) + " bytes: " + what +
                   ", expected " + std::to_string(out.size()) + " bytes");
  };
  size_t bytes = 0;
  if (chunk.size() < BLOSC_MIN_HEADER_LENGTH ||
      blosc_cbuffer_validate(chunk.data(), chunk.size(), &bytes) != 0)
    return bad("no Blosc chunk");
  if (bytes != out.size()) return bad("says " + std::to_string(bytes) + " bytes");
  const int made = blosc_decompress_ctx(chunk.data(), out.data(), out.size(), /*threads=*/1);
  return made == static_cast<int>(out.size()) ? Status() : bad("cannot be decompressed");
}

}  // namespace tdump::io
