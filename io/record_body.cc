#include "io/record_body.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <span>

#include "io/archive.h"
#include "io/hash.h"
#include "io/sections.h"
#include "io/value_sections.h"

namespace tdump::io {
namespace {

constexpr uint64_t kFew = 8 * 1024;  // bytes, read at once with what is beside them
constexpr uint32_t kKnown[] = {
    RecordSection::kId,     PayloadSection::kId, EarlierPayloadSection::kId,
    HashSection::kId,       TilesSection::kId,   ShardSection::kId,
    StatisticsSection::kId, SampleSection::kId,  SliceSection::kId};

std::optional<SectionHeader> HeaderAt(FrameCursor* cursor, const Frame& frame, uint64_t offset) {
  SectionHeader header;
  const auto bytes = cursor->Part(frame, offset, sizeof header);
  if (!bytes.ok()) return std::nullopt;
  std::memcpy(&header, bytes->data(), sizeof header);
  const bool known = std::find(std::begin(kKnown), std::end(kKnown), header.id) != std::end(kKnown);
  const uint64_t left = frame.body_bytes - offset - sizeof header;
  if (!known || header.reserved != 0 || header.bytes > left) return std::nullopt;
  return header;
}

bool Add(FrameCursor* cursor, const Frame& frame, uint64_t offset, uint64_t bytes,
         const SectionHeader& header, std::vector<std::byte>* body) {
  const auto section = cursor->Part(frame, offset, bytes);
  if (!section.ok()) return false;
  if (XXH3_64bits(section->data() + sizeof header, header.bytes) != header.checksum) return false;
  body->insert(body->end(), section->begin(), section->end());
  return true;
}

// Of the section that has them.
uint64_t BytesOfDigests(std::span<const std::byte> payload) {
  const auto section = DecodeSection<PayloadSection>(payload);
  if (!section.ok()) return 0;
  const uint64_t bytes = section->logical_bytes;
  return sizeof(uint64_t) + (bytes / kHashTile + (bytes % kHashTile != 0)) * sizeof(Hash128);
}

}  // namespace

std::vector<std::byte> BodyWithoutTiles(FrameCursor* cursor, const Frame& frame) {
  if (frame.body_bytes <= kFew) return {};
  std::vector<std::byte> body;
  uint64_t expected = 0;  // bytes of the digests, by the payload section before them
  bool left_out = false;
  for (uint64_t at = 0; at < frame.body_bytes;) {
    const auto header = HeaderAt(cursor, frame, at);
    if (!header) return {};
    const uint64_t padded = sizeof(SectionHeader) + PadTo(header->bytes, 8);
    const uint64_t bytes = std::min(padded, frame.body_bytes - at);
    const bool tiles = header->id == TilesSection::kId;
    if (tiles && (left_out || header->bytes != expected)) return {};
    if (!tiles && (bytes > kFew || !Add(cursor, frame, at, bytes, *header, &body))) return {};
    if (header->id == PayloadSection::kId)
      expected =
          BytesOfDigests(std::span(body).last(bytes).subspan(sizeof(SectionHeader), header->bytes));
    left_out |= tiles;
    at += bytes;
  }
  return left_out ? body : std::vector<std::byte>();
}

}  // namespace tdump::io
