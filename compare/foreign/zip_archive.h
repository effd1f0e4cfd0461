// ZipArchive: the members of a ZIP file (APPNOTE.TXT 6.3.x, ZIP64 included), stored or deflated:
// what torch.save and numpy.savez write. Member names are names only: no file is ever made of them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compare/foreign/byte_source.h"

namespace tdump::compare::foreign {

struct ZipMember {
  std::string name;
  uint64_t offset = 0;  // of its data in the file
  uint64_t packed_bytes = 0, bytes = 0;
  uint32_t crc = 0;  // 0: not recorded (torch.save can be told so)
  bool deflated = false;
};

// Thread-safe.
class ZipArchive {
 public:
  static bool LooksLikeOne(const ByteSource& file);
  // Errors (kCorrupt): a directory that is not there or torn, members that overlap, lie outside the
  // file, claim to unpack to more than deflate can, or share a name. kUnsupported: encrypted
  // members, other compressions, several disks.
  static Result<std::shared_ptr<const ZipArchive>> Open(Bytes file);

  const std::vector<ZipMember>& members() const { return members_; }  // in the directory's order
  const ZipMember* Find(std::string_view name) const;                 // null: there is none
  // Its bytes, unpacked. The first time the checksum of the whole member is verified (kCorrupt).
  // The result is for one thread at a time.
  Result<Bytes> OpenMember(const ZipMember& member) const;
  // The same without the checksum, to look at the first bytes of a member.
  Bytes OpenUnverified(const ZipMember& member) const;

 private:
  struct Directory {
    uint64_t offset = 0, bytes = 0, entries = 0;
  };
  explicit ZipArchive(Bytes file) : file_(std::move(file)) {}
  Result<Directory> FindDirectory() const;
  Result<Directory> FindDirectory64(uint64_t end_record) const;
  Status ReadDirectory(const Directory& directory);
  Status LocateData(ZipMember* member) const;
  Status CheckMembers(uint64_t directory_offset);
  Status VerifyOnce(const ZipMember& member) const;
  Status Bad(uint64_t offset, const std::string& what) const;

  Bytes file_;
  std::vector<ZipMember> members_;
  std::map<std::string, size_t, std::less<>> by_name_;
  mutable std::mutex mutex_;
  mutable std::set<const ZipMember*> verified_;
};

}  // namespace tdump::compare::foreign
