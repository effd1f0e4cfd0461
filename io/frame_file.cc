#include "io/frame_file.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "io/byte_order.h"

namespace tdump::io {
namespace {

// Bytes read where a walk begins or jumps over a payload; what follows is then read ahead in twice
// as many each time, up to the window.
constexpr uint64_t kAfterJump = 16 * 1024;

template <class Struct>
uint64_t StoredChecksum(const Struct& fixed) {
  return XXH3_64bits(&fixed, sizeof(Struct) - sizeof(uint64_t));
}

void Swap(FileHeader* header) {
  header->magic = SwapBytes(header->magic);
  header->byte_order = SwapBytes(header->byte_order);
  header->version_major = SwapBytes(header->version_major);
  header->version_minor = SwapBytes(header->version_minor);
  header->ordinal = SwapBytes(header->ordinal);
  header->rank = SwapBytes(header->rank);
  header->generation = SwapBytes(header->generation);
  header->pid = SwapBytes(header->pid);
  header->job_hash = SwapBytes(header->job_hash);
  header->created_ns = SwapBytes(header->created_ns);
  header->checksum = SwapBytes(header->checksum);
}

void Swap(FrameHeader* header) {
  header->magic = SwapBytes(header->magic);
  header->kind = SwapBytes(header->kind);
  header->flags = SwapBytes(header->flags);
  header->body_bytes = SwapBytes(header->body_bytes);
  header->body_checksum = SwapBytes(header->body_checksum);
  header->checksum = SwapBytes(header->checksum);
}

void Swap(FileFooter* footer) {
  for (uint64_t* field :
       {&footer->magic, &footer->index_offset, &footer->index_bytes, &footer->records,
        &footer->calls, &footer->payload_bytes, &footer->reserved, &footer->checksum}) {
    *field = SwapBytes(*field);
  }
}

// Copies the struct out of raw bytes. `*checksum` is what the stored
// bytes hash to, before any swap.
template <class Struct>
Struct Load(std::span<const std::byte> bytes, bool swapped, uint64_t* checksum) {
  Struct fixed;
  std::memcpy(&fixed, bytes.data(), sizeof fixed);
  *checksum = StoredChecksum(fixed);
  if (swapped) Swap(&fixed);
  return fixed;
}

std::string_view KindOfFile(uint64_t magic) {
  return magic == kPassMagic ? "pass file" : magic == kPackMagic ? "packed file" : "manifest";
}

}  // namespace

Status FrameFile::Error(uint64_t offset, std::string_view what) const {
  return Corrupt(fmt::format("{}: offset {}: {}", path(), base_ + offset, what));
}

Status FrameFile::Read(uint64_t offset, std::span<std::byte> out) const {
  const uint64_t left = offset < size_ ? size_ - offset : 0;
  if (out.size() > left)
    return Error(offset, fmt::format("the file ends after {} of {} bytes", left, out.size()));
  return ReadPacked(base_ + offset, out);
}

Status FrameFile::ReadPacked(uint64_t offset, std::span<std::byte> out) const {
  TDUMP_ASSIGN_OR_RETURN(const size_t got, file_->ReadAt(offset, out));
  if (got == out.size()) return Status::Ok();
  return Error(offset - base_, fmt::format("the file ends after {} of {} bytes", got, out.size()));
}

Result<std::unique_ptr<FrameFile>> FrameFile::Open(Env* env, const std::string& path,
                                                   uint64_t magic, uint64_t offset,
                                                   uint64_t bytes) {
  std::unique_ptr<FrameFile> file(new FrameFile);
  TDUMP_ASSIGN_OR_RETURN(file->file_, env->OpenRead(path));
  file->base_ = std::min(offset, file->file_->Size());
  file->size_ = std::min(bytes, file->file_->Size() - file->base_);
  std::array<std::byte, sizeof(FileHeader)> head;
  if (file->size() < head.size()) {
    return file->Error(
        0, fmt::format("file header: {} bytes, expected {}; not a tdump {}, or its process was "
                       "killed at its start, or its disk was full",
                       file->size(), head.size(), KindOfFile(magic)));
  }
  TDUMP_RETURN_IF_ERROR(file->Read(0, head));
  uint64_t found;
  std::memcpy(&found, head.data(), sizeof found);
  file->swapped_ = found == SwapBytes(magic);
  if (found != magic && !file->swapped_) {
    return file->Error(0, fmt::format("magic: {:#018x}, expected {:#018x}; not a tdump {}", found,
                                      magic, KindOfFile(magic)));
  }
  uint64_t checksum;
  const FileHeader header = Load<FileHeader>(head, file->swapped_, &checksum);
  if (header.checksum != checksum) return file->Error(56, "file header: checksum does not match");
  if (header.byte_order != kByteOrder) {
    return file->Error(
        8, fmt::format("byte order: {:#x}, expected {:#x}", header.byte_order, kByteOrder));
  }
  if (header.version_major != kVersionMajor) {
    return Unsupported(fmt::format("{}: offset 12: version {}.{}, this tdump reads version {}",
                                   path, header.version_major, header.version_minor,
                                   kVersionMajor));
  }
  file->header_ = header;
  return file;
}

Result<FileFooter> FrameFile::Footer() const {
  constexpr uint64_t kSmallest = sizeof(FileHeader) + sizeof(FrameHeader) + sizeof(FileFooter);
  if (size() < kSmallest) return Error(size(), "footer: the file is too short to have one");
  const uint64_t at = size() - sizeof(FileFooter);
  std::array<std::byte, sizeof(FileFooter)> bytes;
  TDUMP_RETURN_IF_ERROR(Read(at, bytes));
  uint64_t checksum;
  const FileFooter footer = Load<FileFooter>(bytes, swapped_, &checksum);
  if (footer.magic != kFooterMagic)
    return Error(at, "footer: none; the pass was not finished, or the file is torn");
  if (footer.checksum != checksum) return Error(at + 56, "footer: checksum does not match");
  if (footer.index_offset < sizeof(FileHeader) || footer.index_offset > at ||
      footer.index_bytes != at - footer.index_offset) {
    return Error(
        at + 8,
        fmt::format("footer: index at {} with {} bytes does not end where the footer begins",
                    footer.index_offset, footer.index_bytes));
  }
  return footer;
}

Result<std::span<const std::byte>> FrameCursor::View(uint64_t offset, uint64_t bytes) {
  if (offset > file_.size() || bytes > file_.size() - offset) {
    return file_.Error(offset, fmt::format("{} bytes expected, {} left", bytes,
                                           file_.size() - std::min(offset, file_.size())));
  }
  const bool inside =
      offset >= start_ && offset - start_ <= filled_ && bytes <= filled_ - (offset - start_);
  if (!inside) {
    const bool goes_on = offset >= start_ && offset - start_ <= filled_;
    ahead_ = std::min(window_, goes_on ? 2 * ahead_ : kAfterJump);
    const uint64_t want = std::min(std::max(bytes, ahead_), file_.size() - offset);
    const bool begins_inside = offset >= start_ && offset - start_ < filled_;
    const uint64_t kept = begins_inside ? filled_ - (offset - start_) : 0;  // not read again
    if (buffer_.size() < want) buffer_.resize(want);
    if (kept > 0) std::memmove(buffer_.data(), buffer_.data() + (offset - start_), kept);
    start_ = offset;
    filled_ = 0;
    TDUMP_RETURN_IF_ERROR(file_.Read(offset + kept, std::span(buffer_).subspan(kept, want - kept)));
    filled_ = want;
  }
  return std::span<const std::byte>(buffer_).subspan(offset - start_, bytes);
}

Result<Frame> FrameCursor::Header(uint64_t offset) {
  TDUMP_ASSIGN_OR_RETURN(const auto bytes, View(offset, sizeof(FrameHeader)));
  uint64_t checksum;
  const FrameHeader header = Load<FrameHeader>(bytes, file_.swapped(), &checksum);
  if (header.magic != kFrameMagic) return file_.Error(offset, "frame: no frame begins here");
  if (header.checksum != checksum)
    return file_.Error(offset + 24, "frame header: checksum does not match");
  return Frame{.offset = offset,
               .kind = static_cast<FrameKind>(header.kind),
               .flags = header.flags,
               .body_bytes = header.body_bytes,
               .body_checksum = header.body_checksum};
}

Result<Frame> FrameCursor::At(uint64_t offset) {
  TDUMP_ASSIGN_OR_RETURN(const Frame frame, Header(offset));
  const uint64_t left = file_.size() - frame.body();
  if (frame.body_bytes <= left) return frame;
  return file_.Error(offset + 8, fmt::format("body_bytes: {}, only {} bytes left in the file",
                                             frame.body_bytes, left));
}

Result<std::span<const std::byte>> FrameCursor::Body(const Frame& frame) {
  if (frame.body_bytes > kMaxBodyBytes) {
    return file_.Error(frame.offset + 8,
                       fmt::format("body_bytes: {}, more than the {} a frame of kind {} may have",
                                   frame.body_bytes, kMaxBodyBytes, static_cast<int>(frame.kind)));
  }
  TDUMP_ASSIGN_OR_RETURN(const auto body, View(frame.body(), frame.body_bytes));
  if (XXH3_64bits(body.data(), body.size()) != frame.body_checksum) {
    return file_.Error(frame.body(),
                       fmt::format("body of a frame of kind {}: checksum does not match",
                                   static_cast<int>(frame.kind)));
  }
  return body;
}

Result<std::span<const std::byte>> FrameCursor::Part(const Frame& frame, uint64_t offset,
                                                     uint64_t bytes) {
  if (offset > frame.body_bytes || bytes > frame.body_bytes - offset)
    return file_.Error(frame.body() + offset, "beyond the body of its frame");
  return View(frame.body() + offset, bytes);
}

Result<bool> FrameCursor::OnlyZerosFrom(uint64_t offset) {
  while (offset < file_.size()) {
    const uint64_t step = std::min(window_, file_.size() - offset);
    TDUMP_ASSIGN_OR_RETURN(const auto bytes, View(offset, step));
    if (std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{0}; }))
      return false;
    offset += step;
  }
  return true;
}

}  // namespace tdump::io
