#include "compare/foreign/zip_archive.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "compare/foreign/inflate.h"

namespace tdump::compare::foreign {
namespace {

// Signatures and sizes of the fixed parts (APPNOTE 4.3.7, 4.3.12, 4.3.14 - 4.3.16).
constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr uint64_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22;
constexpr uint64_t kEnd64Bytes = 56, kLocator64Bytes = 20;
constexpr uint64_t kMaxComment = 65535;
constexpr uint64_t kMaxDirectory = 256ull << 20;
constexpr uint64_t kMaxDeflateRatio = 1032;
constexpr uint32_t kIsElsewhere = 0xffffffff;  // the value is in the ZIP64 extra field
constexpr uint16_t kEncrypted = 1;

template <size_t kSize>
using Fixed = std::array<std::byte, kSize>;

// One entry of the central directory, before its ZIP64 values are filled in.
struct Entry {
  uint16_t flags, method, name_bytes, extra_bytes, comment_bytes;
  uint32_t crc, packed, size, local;
};

Entry ParseEntry(const std::byte* at) {
  return {.flags = Little16(at + 8),
          .method = Little16(at + 10),
          .name_bytes = Little16(at + 28),
          .extra_bytes = Little16(at + 30),
          .comment_bytes = Little16(at + 32),
          .crc = Little32(at + 16),
          .packed = Little32(at + 20),
          .size = Little32(at + 24),
          .local = Little32(at + 42)};
}

// Takes the values that are elsewhere, in their order, from the ZIP64 field (APPNOTE 4.5.3). False:
// it is not there or too short.
bool FillFromExtra(std::string_view extra, std::array<uint64_t*, 3> values) {
  const auto missing = [](const uint64_t* value) { return *value == kIsElsewhere; };
  if (std::none_of(values.begin(), values.end(), missing)) return true;
  const auto* at = reinterpret_cast<const std::byte*>(extra.data());
  for (size_t left = extra.size(); left >= 4;) {
    const uint16_t id = Little16(at), bytes = Little16(at + 2);
    if (bytes > left - 4) return false;
    if (id == 1) {
      size_t next = 0;
      for (uint64_t* value : values) {
        if (!missing(value)) continue;
        if (next + 8 > bytes) return false;
        *value = Little64(at + 4 + next);
        next += 8;
      }
      return true;
    }
    at += 4 + bytes;
    left -= 4 + size_t{bytes};
  }
  return false;
}

}  // namespace

bool ZipArchive::LooksLikeOne(const ByteSource& file) {
  Fixed<4> start;
  if (file.size() < kEndBytes || !file.ReadAt(0, start).ok()) return false;
  const uint32_t signature = Little32(start.data());
  return signature == kLocal || signature == kEnd;
}

Result<std::shared_ptr<const ZipArchive>> ZipArchive::Open(Bytes file) {
  std::shared_ptr<ZipArchive> archive(new ZipArchive(std::move(file)));
  TDUMP_ASSIGN_OR_RETURN(const Directory directory, archive->FindDirectory());
  TDUMP_RETURN_IF_ERROR(archive->ReadDirectory(directory));
  TDUMP_RETURN_IF_ERROR(archive->CheckMembers(directory.offset));
  return std::shared_ptr<const ZipArchive>(std::move(archive));
}

Status ZipArchive::Bad(uint64_t offset, const std::string& what) const {
  return Corrupt(fmt::format("'{}', offset {}: {}", file_->name(), offset, what));
}

// The end record stands last, before a comment of any length.
Result<ZipArchive::Directory> ZipArchive::FindDirectory() const {
  const uint64_t tail_bytes = std::min(file_->size(), kEndBytes + kMaxComment);
  std::vector<std::byte> tail(tail_bytes);
  const uint64_t tail_offset = file_->size() - tail_bytes;
  TDUMP_RETURN_IF_ERROR(file_->ReadAt(tail_offset, tail));
  for (uint64_t at = tail_bytes < kEndBytes ? 0 : tail_bytes - kEndBytes + 1; at-- > 0;) {
    const std::byte* record = tail.data() + at;
    if (Little32(record) != kEnd || Little16(record + 20) != tail_bytes - at - kEndBytes) continue;
    if (Little16(record + 4) != 0 && Little16(record + 4) != 0xffff)
      return Unsupported(fmt::format("'{}' is one of several parts of a ZIP file", file_->name()));
    const Directory directory{Little32(record + 16), Little32(record + 12), Little16(record + 10)};
    const bool elsewhere = directory.offset == kIsElsewhere || directory.bytes == kIsElsewhere ||
                           directory.entries == 0xffff;
    return elsewhere ? FindDirectory64(tail_offset + at) : Result<Directory>(directory);
  }
  return Bad(file_->size(), "the directory of the ZIP file is missing at the end; was it cut off?");
}

Result<ZipArchive::Directory> ZipArchive::FindDirectory64(uint64_t end_record) const {
  Fixed<kLocator64Bytes> locator;
  if (end_record < locator.size()) return Bad(end_record, "the ZIP64 locator is missing");
  TDUMP_RETURN_IF_ERROR(file_->ReadAt(end_record - locator.size(), locator));
  if (Little32(locator.data()) != kLocator64)
    return Bad(end_record, "the ZIP64 locator is missing");
  const uint64_t offset = Little64(locator.data() + 8);
  Fixed<kEnd64Bytes> record;
  TDUMP_RETURN_IF_ERROR(file_->ReadAt(offset, record));
  if (Little32(record.data()) != kEnd64) return Bad(offset, "not a ZIP64 end record");
  return Directory{Little64(record.data() + 48), Little64(record.data() + 40),
                   Little64(record.data() + 32)};
}

Status ZipArchive::ReadDirectory(const Directory& directory) {
  if (directory.offset > file_->size() || directory.bytes > file_->size() - directory.offset)
    return Bad(directory.offset, "the directory lies outside the file");
  if (directory.bytes > kMaxDirectory)
    return Bad(directory.offset, fmt::format("a directory of {} bytes", directory.bytes));
  if (directory.entries > directory.bytes / kCentralBytes)
    return Bad(directory.offset,
               fmt::format("{} members do not fit in its directory", directory.entries));
  ByteReader reader(file_, directory.offset, directory.offset + directory.bytes);
  for (uint64_t i = 0; i < directory.entries; ++i) {
    const uint64_t at = reader.offset();
    Fixed<kCentralBytes> fixed;
    TDUMP_RETURN_IF_ERROR(reader.Read(fixed));
    if (Little32(fixed.data()) != kCentral) return Bad(at, "not an entry of the directory");
    const Entry entry = ParseEntry(fixed.data());
    ZipMember member{.offset = entry.local,
                     .packed_bytes = entry.packed,
                     .bytes = entry.size,
                     .crc = entry.crc,
                     .deflated = entry.method == 8};
    TDUMP_ASSIGN_OR_RETURN(member.name, reader.ReadText(entry.name_bytes, kMaxComment));
    TDUMP_ASSIGN_OR_RETURN(const std::string extra,
                           reader.ReadText(entry.extra_bytes, kMaxComment));
    TDUMP_RETURN_IF_ERROR(reader.ReadText(entry.comment_bytes, kMaxComment).status());
    if (!FillFromExtra(extra, {&member.bytes, &member.packed_bytes, &member.offset}))
      return Bad(at, "the ZIP64 values are missing");
    if ((entry.flags & kEncrypted) != 0)
      return Unsupported(fmt::format("'{}': '{}' is encrypted", file_->name(), member.name));
    if (entry.method != 0 && entry.method != 8)
      return Unsupported(
          fmt::format("'{}': '{}' is compressed by method {}; stored and deflated "
                      "members can be read",
                      file_->name(), member.name, entry.method));
    TDUMP_RETURN_IF_ERROR(LocateData(&member));
    members_.push_back(std::move(member));
  }
  return {};
}

// From the offset of its local header to that of its data.
Status ZipArchive::LocateData(ZipMember* member) const {
  Fixed<kLocalBytes> local;
  TDUMP_RETURN_IF_ERROR(file_->ReadAt(member->offset, local));
  if (Little32(local.data()) != kLocal)
    return Bad(member->offset, fmt::format("not the header of member '{}'", member->name));
  const uint64_t name_bytes = Little16(local.data() + 26);
  if (name_bytes != member->name.size())
    return Bad(member->offset, fmt::format("the header of '{}' has another name", member->name));
  std::string name(name_bytes, '\0');
  TDUMP_RETURN_IF_ERROR(
      file_->ReadAt(member->offset + kLocalBytes, std::as_writable_bytes(std::span(name))));
  if (name != member->name)
    return Bad(member->offset, fmt::format("the header of '{}' has another name", member->name));
  member->offset += kLocalBytes + name_bytes + Little16(local.data() + 28);
  return {};
}

Status ZipArchive::CheckMembers(uint64_t directory_offset) {
  std::vector<const ZipMember*> order;
  for (size_t i = 0; i < members_.size(); ++i) {
    const ZipMember& member = members_[i];
    if (member.offset > directory_offset || member.packed_bytes > directory_offset - member.offset)
      return Bad(member.offset, fmt::format("'{}' reaches beyond the file", member.name));
    const uint64_t most =
        member.deflated ? member.packed_bytes * kMaxDeflateRatio + 64 : member.packed_bytes;
    if (member.deflated ? member.bytes > most : member.bytes != most)
      return Bad(member.offset, fmt::format("'{}' claims {} bytes and has {} packed", member.name,
                                            member.bytes, member.packed_bytes));
    if (!by_name_.emplace(member.name, i).second)
      return Bad(member.offset, fmt::format("two members are named '{}'", member.name));
    order.push_back(&member);
  }
  std::sort(order.begin(), order.end(),
            [](const ZipMember* a, const ZipMember* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (order[i - 1]->offset + order[i - 1]->packed_bytes > order[i]->offset)
      return Bad(order[i]->offset,
                 fmt::format("'{}' and '{}' overlap", order[i - 1]->name, order[i]->name));
  }
  return {};
}

const ZipMember* ZipArchive::Find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &members_[found->second];
}

Bytes ZipArchive::OpenUnverified(const ZipMember& member) const {
  Bytes packed = PartOf(file_, member.offset, member.packed_bytes,
                        fmt::format("{}: {}", file_->name(), member.name));
  return member.deflated ? Inflate(std::move(packed), member.bytes) : packed;
}

Status ZipArchive::VerifyOnce(const ZipMember& member) const {
  if (member.crc == 0) return {};
  {
    std::lock_guard lock(mutex_);
    if (verified_.contains(&member)) return {};
  }
  ByteReader reader(OpenUnverified(member), 0, member.bytes);
  std::vector<std::byte> piece(64 * 1024);
  uint32_t crc = 0;
  while (reader.left() > 0) {
    const auto part = std::span(piece).first(std::min<uint64_t>(piece.size(), reader.left()));
    TDUMP_RETURN_IF_ERROR(reader.Read(part));
    crc = static_cast<uint32_t>(
        crc32_z(crc, reinterpret_cast<const Bytef*>(part.data()), part.size()));
  }
  if (crc != member.crc)
    return Bad(member.offset, fmt::format("'{}' does not match its checksum", member.name));
  std::lock_guard lock(mutex_);
  verified_.insert(&member);
  return {};
}

Result<Bytes> ZipArchive::OpenMember(const ZipMember& member) const {
  TDUMP_RETURN_IF_ERROR(VerifyOnce(member));
  return OpenUnverified(member);
}

}  // namespace tdump::compare::foreign
