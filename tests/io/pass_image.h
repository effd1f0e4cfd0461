// Pass files and manifests as bytes in memory, frame by frame, so that tests can build what no
// writer would: forged counts with right checksums, unknown kinds, files without an end.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/env.h"
#include "core/types.h"
#include "io/archive.h"
#include "io/format.h"
#include "io/sections.h"

namespace tdump::io::test {

// One section with its header, from archive bytes of any content.
std::string RawSection(uint32_t id, std::string_view archive);
// One frame, padded.
std::string RawFrame(FrameKind kind, std::string_view body);

class Image {
 public:
  explicit Image(uint64_t magic, FileHeader header = {});

  // Appends a frame; returns its offset.
  uint64_t Frame(FrameKind kind, std::string_view body);
  uint64_t Name(uint32_t id, std::string_view text);
  // A module operator whose names are ids.
  uint64_t Operator(uint32_t op, uint32_t path_name, uint32_t class_name = 0);
  uint64_t Call(const CallSection& call);
  // A record frame of the sections in `body`; noted in the index as `record`.
  uint64_t Record(uint64_t record, std::string_view body);
  // A payload frame (with the pad before it). Returns the sections that a record of it needs.
  std::string Payload(std::span<const std::byte> bytes);
  // Index and footer.
  void Finish();

  const std::string& bytes() const { return bytes_; }
  const IndexSection& index() const { return index_; }

 private:
  std::string bytes_;
  IndexSection index_;
  uint64_t payload_bytes_ = 0;
};

// A record of operator 0, argument name 0, dtype name 1 (float32), contiguous.
RecordSection FloatRecord(uint64_t id, std::vector<int64_t> sizes);

std::vector<std::byte> FloatBytes(const std::vector<float>& values);

// A pass with a name, an operator, a call, one record of {1, 2, 3, 4, 5, 6} as [2, 3] and one that
// shares its payload.
Image SmallPass(uint64_t ordinal = 7);

// `env` gets the bytes under `path`.
void Store(Env* env, const std::string& path, std::string_view bytes);

}  // namespace tdump::io::test
