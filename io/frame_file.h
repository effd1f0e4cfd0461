// FrameFile: the frames of one pass file, one pass of a packed file, or a manifest, found and
// checked, whatever they hold. The layer under PassReader and ReadManifest; knows headers, lengths,
// checksums and byte order (io/format.h), nothing of sections' fields.
//
// Nothing the file says is believed: a length is compared with the bytes that are left before
// anything is allocated, and an error is kCorrupt with "<path>: offset <n>: <field>: <what is
// there, what was expected>".
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/env.h"
#include "core/status.h"
#include "io/format.h"

namespace tdump::io {

// Bodies other than payloads are held in memory while they are decoded; a longer one is taken for
// forged. Enough for the index of a pass with ten million records.
inline constexpr uint64_t kMaxBodyBytes = 256ull << 20;

// A frame whose header is valid and whose body lies inside the file.
struct Frame {
  uint64_t offset = 0;  // of the header
  FrameKind kind = FrameKind::kPad;
  uint16_t flags = 0;
  uint64_t body_bytes = 0;
  uint64_t body_checksum = 0;

  uint64_t body() const { return offset + sizeof(FrameHeader); }
  uint64_t end() const { return PadTo(body() + body_bytes, 8); }
};

// Thread-safe after Open. `magic`: kPassMagic, kPackMagic or kManifestMagic.
class FrameFile {
 public:
  static constexpr uint64_t kToTheEnd = ~uint64_t{0};
  // `offset` and `bytes`: of a pass in a packed file; its offsets then count from there.
  static Result<std::unique_ptr<FrameFile>> Open(Env* env, const std::string& path, uint64_t magic,
                                                 uint64_t offset = 0, uint64_t bytes = kToTheEnd);

  const std::string& path() const { return file_->path(); }
  uint64_t size() const { return size_; }
  uint64_t base() const { return base_; }  // where it begins in the file
  const FileHeader& header() const { return header_; }
  // The file was written on a machine of the other byte order: every integer in it is swapped.
  bool swapped() const { return swapped_; }

  // Exactly `out.size()` bytes, or kCorrupt when the file ends before.
  Status Read(uint64_t offset, std::span<std::byte> out) const;
  // The same, counted from the start of the packed file.
  Status ReadPacked(uint64_t offset, std::span<std::byte> out) const;
  // The footer of a complete pass file: magic, checksum and the place of the index hold.
  Result<FileFooter> Footer() const;
  // The message counts `offset` from the start of the file, packed or not.
  Status Error(uint64_t offset, std::string_view what) const;

 private:
  FrameFile() = default;
  std::unique_ptr<ReadableFile> file_;
  uint64_t base_ = 0;
  uint64_t size_ = 0;
  FileHeader header_;
  bool swapped_ = false;
};

// Walks over a FrameFile through one buffer. Not thread-safe: one per thread and walk. Spans live
// until the next call.
class FrameCursor {
 public:
  // `window`: bytes read ahead at most; large for walks, small for single frames.
  FrameCursor(const FrameFile& file, uint64_t window) : file_(file), window_(window) {}

  // The frame whose header is at `offset`.
  Result<Frame> At(uint64_t offset);
  // The same, whether or not the file ends inside the frame.
  Result<Frame> Header(uint64_t offset);
  // The checked body. For every kind but kPayload and kPad.
  Result<std::span<const std::byte>> Body(const Frame& frame);
  // Bytes of the body from `offset` on, unchecked.
  Result<std::span<const std::byte>> Part(const Frame& frame, uint64_t offset, uint64_t bytes);
  // True when all bytes from `offset` to the end of the file are zero (the
  // preallocated tail of a manifest).
  Result<bool> OnlyZerosFrom(uint64_t offset);

 private:
  Result<std::span<const std::byte>> View(uint64_t offset, uint64_t bytes);

  const FrameFile& file_;
  const uint64_t window_;
  std::vector<std::byte> buffer_;
  uint64_t start_ = 0;   // file offset of buffer_[0]
  uint64_t filled_ = 0;  // valid bytes of buffer_
  uint64_t ahead_ = 0;   // bytes of the last reading ahead, before it met the end of the file
};

}  // namespace tdump::io
