#include "io/archive.h"

#include <xxhash.h>

#include <algorithm>

namespace tdump::io {

uint64_t Checksum(const void* data, size_t bytes) { return XXH3_64bits(data, bytes); }

void FinishSection(uint32_t id, size_t start, std::string* body) {
  const size_t archive = start + sizeof(SectionHeader);
  SectionHeader header;
  header.id = id;
  header.bytes = body->size() - archive;
  header.checksum = Checksum(body->data() + archive, header.bytes);
  std::memcpy(body->data() + start, &header, sizeof(header));
  body->append(PadTo(header.bytes, 8) - header.bytes, '\0');
}

bool SectionCursor::Next() {
  if (!status_.ok() || next_ >= body_.size()) return false;
  offset_ = next_;
  const size_t left = body_.size() - next_;
  const auto damaged = [&](const std::string& what) {
    status_ = Corrupt("section at byte " + std::to_string(offset_) + " of its frame: " + what);
    return false;
  };
  if (left < sizeof(SectionHeader))
    return damaged("header cut after " + std::to_string(left) + " bytes");
  std::memcpy(&header_, body_.data() + next_, sizeof(header_));
  if (swap_) {
    header_.id = SwapBytes(header_.id);
    header_.bytes = SwapBytes(header_.bytes);
    header_.checksum = SwapBytes(header_.checksum);
  }
  const size_t room = left - sizeof(SectionHeader);
  if (header_.bytes > room) {
    return damaged("says " + std::to_string(header_.bytes) + " bytes, " + std::to_string(room) +
                   " are left");
  }
  archive_ = body_.subspan(next_ + sizeof(SectionHeader), header_.bytes);
  if (Checksum(archive_.data(), archive_.size()) != header_.checksum)
    return damaged("checksum does not match");
  // The last section's padding may be left out of the body (the frame pads as well).
  next_ += sizeof(SectionHeader) + std::min<size_t>(room, PadTo(header_.bytes, 8));
  return true;
}

}  // namespace tdump::io
