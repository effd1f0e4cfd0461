// Builds frames in a string. Used by everything that writes pass files or manifests.
//
//   FrameBuilder frame(FrameKind::kRecord, &buffer);
//   AppendSection(record, &buffer);
//   frame.Finish();
#pragma once

#include <string>

#include "io/format.h"

namespace tdump::io {

class FrameBuilder {
 public:
  // Appends the place of a header to `out`, which must outlive the builder.
  FrameBuilder(FrameKind kind, std::string* out);
  // Completes the header over everything appended since, and pads.
  void Finish();

 private:
  FrameKind kind_;
  std::string* out_;
  size_t start_;
};

FrameHeader MakeFrameHeader(FrameKind kind, uint64_t body_bytes, uint64_t body_checksum);
FrameHeader WithFlags(FrameHeader header, uint16_t flags);
FileHeader Sealed(FileHeader header);  // with its checksum
FileFooter Sealed(FileFooter footer);

template <class T>
void AppendStruct(const T& value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace tdump::io
