// A node file: the files of all processes of a node in one (`output.layout: node`), so that a job
// of very many ranks makes a file a node. io/node_env.h shows its members as files in directories.
//
//   1. A member is called "rank0_pid7/pack00000.tdp" and lies in extents, which are given out one
//      behind the other, under an exclusive lock of the file. Its bytes are written without one.
//   2. A member's size stands in the page of its first extent, and is written after the bytes.
//   3. A process that is killed leaves its members as they are. One killed while it has the lock
//      leaves at most an extent that nobody was told of: the next one takes its place.
// All numbers are in bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/env.h"
#include "core/status.h"
#include "io/format.h"

namespace tdump::io {

struct NodeExtent {
  uint64_t at = 0;      // of its header in the node file
  uint64_t offset = 0;  // of its data in the member
  uint64_t bytes = 0;   // of its data
  uint64_t data() const { return at + kExtentPage; }
};

struct NodeMember {
  std::string name;
  uint64_t bytes = 0;               // its size
  std::vector<NodeExtent> extents;  // by offset, without a gap
};

struct NodeContents {
  uint64_t changes = 0;
  std::vector<NodeMember> members;  // in the order of their first extents
  std::vector<NodeExtent> free;     // what removed members leave, by place in the file
  std::optional<uint64_t> damaged;  // the first place where an extent should be and is none
};

// "node_<host>_<machine>.tdn"; `machine` tells apart machines of one name. Characters that may not
// be in a file name become '_'.
std::string NodeFileName(std::string_view host, std::string_view machine);
bool IsNodeFileName(std::string_view name);

// kCorrupt where it is no node file; of members whose extents are damaged there is what lies in
// front of them.
Result<NodeContents> ReadNodeFile(Env* env, const std::string& path);
// What changes while the file is written.
struct NodeMoment {
  uint64_t changes = 0;
  uint64_t bytes = 0;  // size of the member
};
// `member`: none, or one of the contents.
Result<NodeMoment> ReadNodeMoment(Env* env, const std::string& path, const NodeMember* member);

// Writes the list of members, under the lock. Has no state: any number of them, in any process, may
// work on one file.
class NodeWriter {
 public:
  // The file is made with the first member.
  NodeWriter(Env* env, std::string path) : env_(env), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  Env* env() const { return env_; }

  // A new member with room for `bytes`. kAlreadyExists.
  Result<NodeExtent> Create(const std::string& name, uint64_t bytes);
  // Room for `bytes` more behind the `offset` bytes that the member, whose first extent is at
  // `first`, has room for. kNoSpace: the disk has not that much.
  Result<NodeExtent> Extend(uint64_t first, uint64_t offset, uint64_t bytes);
  // Another member of the name `to` is removed.
  Status Rename(const std::string& from, const std::string& to);
  // Its blocks go back to the disk; one page stays of all removed extents that lie side by side.
  // kUnsupported: the file system cannot do that; the member stays.
  Status Remove(const std::string& name);

 private:
  struct Shared;
  Status Locked(const std::function<Status(Shared*)>& body);
  Result<NodeExtent> Append(Shared* file, uint64_t first, uint64_t offset, uint64_t bytes,
                            const std::string* name);

  Env* const env_;
  const std::string path_;
};

Status WriteMemberSize(WritableFile* file, uint64_t first, uint64_t bytes);

}  // namespace tdump::io
