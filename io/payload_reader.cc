#include "io/payload_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/key.h"
#include "io/byte_order.h"
#include "io/codec.h"
#include "io/hash.h"

namespace tdump::io {
namespace {

constexpr uint64_t kChunk = 64 * kHashTile;  // 1 MiB

}  // namespace

uint32_t SwapWidth(const DType& dtype) {
  if (dtype.elements_per_unit != 1 || dtype.bits_per_element % 8 != 0) return 1;
  const uint32_t bytes = dtype.bits_per_element / 8;
  const bool complex = dtype.view().find("complex") != std::string_view::npos;
  return complex ? bytes / 2 : bytes;
}

Status PayloadReader::CheckTiles(const Record& owner, uint64_t first_tile,
                                 std::span<const std::byte> tiles) const {
  for (uint64_t at = 0; at < tiles.size(); at += kHashTile) {
    const uint64_t tile = first_tile + at / kHashTile;
    const auto bytes = tiles.subspan(at, std::min<uint64_t>(kHashTile, tiles.size() - at));
    const Hash128 digest = TileDigest(bytes);
    if (std::memcmp(digest.data(), owner.tile_digests.data() + tile * kDigestBytes, kDigestBytes) !=
        0) {
      const PayloadRef& payload = *owner.payload;
      return file_.Error(
          (payload.earlier != 0 ? payload.earlier - file_.base() : payload.offset) +
              tile * kHashTile,
          fmt::format("payload of record {} ('{}'): {} bytes do not match their digest", owner.id,
                      ToText(owner.key), bytes.size()));
    }
  }
  return Status::Ok();
}

Status PayloadReader::ReadAt(const PayloadRef& payload, uint64_t offset,
                             std::span<std::byte> out) const {
  return payload.earlier != 0 ? file_.ReadPacked(payload.earlier + offset, out)
                              : file_.Read(payload.offset + offset, out);
}

// Whole tiles, a chunk at a time; straight into `out` where a chunk lies inside it.
Status PayloadReader::ReadStored(const Record& owner, uint64_t offset, std::span<std::byte> out,
                                 bool verify) const {
  const PayloadRef& payload = *owner.payload;
  if (out.empty()) return Status::Ok();
  if (payload.codec != 0) return ReadBlocks(owner, offset, out, verify);
  if (!verify) return ReadAt(payload, offset, out);
  const uint64_t end = offset + out.size();
  std::vector<std::byte> scratch;
  for (uint64_t at = offset / kHashTile * kHashTile; at < end;) {
    const uint64_t bytes =
        std::min(kChunk, std::min(PadTo(end, kHashTile), payload.logical_bytes) - at);
    const bool inside = at >= offset && at + bytes <= end;
    if (!inside) scratch.resize(bytes);
    const std::span<std::byte> chunk =
        inside ? out.subspan(at - offset, bytes) : std::span(scratch);
    TDUMP_RETURN_IF_ERROR(ReadAt(payload, at, chunk));
    TDUMP_RETURN_IF_ERROR(CheckTiles(owner, at / kHashTile, chunk));
    if (!inside) {
      const uint64_t from = std::max(at, offset);
      const uint64_t to = std::min(at + bytes, end);
      std::memcpy(out.data() + (from - offset), chunk.data() + (from - at), to - from);
    }
    at += bytes;
  }
  return Status::Ok();
}

// Where chunk `block` of a compressed payload begins and ends in the stored bytes.
Result<PayloadReader::ChunkPlace> PayloadReader::FindChunk(const Record& owner,
                                                           uint64_t block) const {
  const PayloadRef& payload = *owner.payload;
  const uint64_t table = CodecBlocks(payload.logical_bytes) * sizeof(uint64_t);
  uint64_t ends[2] = {0, 0};  // of the chunk before and of this one
  const uint64_t first = block == 0 ? 0 : block - 1;
  const std::span<uint64_t> wanted = std::span(ends).last(block == 0 ? 1 : 2);
  if (table > payload.stored_bytes) return BadBlock(owner, block, "no room for its table");
  TDUMP_RETURN_IF_ERROR(ReadAt(payload, first * sizeof(uint64_t), std::as_writable_bytes(wanted)));
  if (file_.swapped()) {
    for (uint64_t& end : wanted) end = SwapBytes(end);
  }
  const uint64_t room = payload.stored_bytes - table;
  if (ends[0] > ends[1] || ends[1] > room || ends[1] - ends[0] > 2 * kCodecBlock)
    return BadBlock(owner, block, fmt::format("from {} to {} of {}", ends[0], ends[1], room));
  return ChunkPlace{table + ends[0], ends[1] - ends[0]};
}

Status PayloadReader::BadBlock(const Record& owner, uint64_t block, std::string_view what) const {
  return file_.Error(owner.payload->offset,
                     fmt::format("payload of record {} ('{}'): compressed block {}: {}", owner.id,
                                 ToText(owner.key), block, what));
}

// Block after block; straight into `out` where a block lies inside it.
Status PayloadReader::ReadBlocks(const Record& owner, uint64_t offset, std::span<std::byte> out,
                                 bool verify) const {
  const PayloadRef& payload = *owner.payload;
  const uint64_t end = offset + out.size();
  std::vector<std::byte> chunk, scratch;
  for (uint64_t at = offset / kCodecBlock * kCodecBlock; at < end; at += kCodecBlock) {
    const uint64_t block = at / kCodecBlock;
    const uint64_t bytes = std::min(kCodecBlock, payload.logical_bytes - at);
    TDUMP_ASSIGN_OR_RETURN(const ChunkPlace place, FindChunk(owner, block));
    chunk.resize(place.bytes);
    TDUMP_RETURN_IF_ERROR(ReadAt(payload, place.offset, chunk));
    const bool inside = at >= offset && at + bytes <= end;
    if (!inside) scratch.resize(bytes);
    const std::span<std::byte> into = inside ? out.subspan(at - offset, bytes) : std::span(scratch);
    if (Status made = DecompressChunk(chunk, into); !made.ok())
      return BadBlock(owner, block, made.message());
    if (verify) TDUMP_RETURN_IF_ERROR(CheckTiles(owner, at / kHashTile, into));
    if (inside) continue;
    const uint64_t from = std::max(at, offset), to = std::min(at + bytes, end);
    std::memcpy(out.data() + (from - offset), scratch.data() + (from - at), to - from);
  }
  return Status::Ok();
}

Status PayloadReader::Read(const Record& owner, uint64_t offset, std::span<std::byte> out,
                           bool verify) const {
  const PayloadRef& payload = *owner.payload;
  if (payload.codec != 0 && payload.codec != static_cast<uint8_t>(Codec::kBlocks)) {
    return Unsupported(fmt::format("{}: record {}: payload codec {} is not known to this version",
                                   file_.path(), owner.id, payload.codec));
  }
  if (offset > payload.logical_bytes || out.size() > payload.logical_bytes - offset) {
    return {StatusCode::kOutOfRange,
            fmt::format("{}: record {}: bytes {} to {} asked for, the payload has {}", file_.path(),
                        owner.id, offset, offset + out.size(), payload.logical_bytes)};
  }
  const uint64_t width = file_.swapped() ? SwapWidth(owner.dtype) : 1;
  if (width < 2) return ReadStored(owner, offset, out, verify);
  // Whole numbers around the range, swapped, then cut.
  const uint64_t from = offset / width * width;
  const uint64_t to = std::min(PadTo(offset + out.size(), width), payload.logical_bytes);
  std::vector<std::byte> numbers(to - from);
  TDUMP_RETURN_IF_ERROR(ReadStored(owner, from, numbers, verify));
  SwapEach(numbers, width);
  std::copy_n(numbers.begin() + (offset - from), out.size(), out.begin());
  return Status::Ok();
}

Result<std::span<const std::byte>> PayloadReader::Map(const Record& owner) const {
  const PayloadRef& payload = *owner.payload;
  if (payload.codec != 0)
    return Unsupported(file_.path() + ": compressed payloads cannot be mapped; read them");
  if (file_.swapped() && SwapWidth(owner.dtype) > 1) {
    return Unsupported(file_.path() +
                       ": payloads of the other byte order cannot be mapped; read them");
  }
  std::lock_guard lock(mutex_);
  if (!map_) {
    TDUMP_ASSIGN_OR_RETURN(map_, env_->Map(file_.path()));
  }
  const auto bytes = map_->bytes();
  const uint64_t at = payload.earlier != 0 ? payload.earlier : file_.base() + payload.offset;
  if (at > bytes.size() || payload.stored_bytes > bytes.size() - at) {
    return file_.Error(at - file_.base(), "payload: the file became shorter while it was open");
  }
  return bytes.subspan(at, payload.stored_bytes);
}

}  // namespace tdump::io
