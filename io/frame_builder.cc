#include "io/frame_builder.h"

#include <cstddef>
#include <cstring>

#include "io/archive.h"

namespace tdump::io {

FrameHeader MakeFrameHeader(FrameKind kind, uint64_t body_bytes, uint64_t body_checksum) {
  FrameHeader header;
  header.kind = static_cast<uint16_t>(kind);
  header.body_bytes = body_bytes;
  header.body_checksum = body_checksum;
  header.checksum = Checksum(&header, offsetof(FrameHeader, checksum));
  return header;
}

FrameHeader WithFlags(FrameHeader header, uint16_t flags) {
  header.flags = flags;
  header.checksum = Checksum(&header, offsetof(FrameHeader, checksum));
  return header;
}

FileHeader Sealed(FileHeader header) {
  header.checksum = Checksum(&header, offsetof(FileHeader, checksum));
  return header;
}

FileFooter Sealed(FileFooter footer) {
  footer.checksum = Checksum(&footer, offsetof(FileFooter, checksum));
  return footer;
}

FrameBuilder::FrameBuilder(FrameKind kind, std::string* out)
    : kind_(kind), out_(out), start_(out->size()) {
  out_->append(sizeof(FrameHeader), '\0');
}

void FrameBuilder::Finish() {
  const size_t body = start_ + sizeof(FrameHeader);
  const size_t bytes = out_->size() - body;
  const FrameHeader header = MakeFrameHeader(kind_, bytes, Checksum(out_->data() + body, bytes));
  std::memcpy(out_->data() + start_, &header, sizeof(header));
  out_->append(PadTo(bytes, 8) - bytes, '\0');
}

}  // namespace tdump::io
