#include "io/node_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <map>
#include <optional>

#include "io/archive.h"
#include "io/byte_order.h"
#include "io/frame_builder.h"

namespace tdump::io {
namespace {

constexpr std::string_view kPrefix = "node_";
constexpr std::string_view kSuffix = ".tdn";
constexpr int kLockMs = 10'000;
// A reader may meet a state that is being written.
constexpr int kReadings = 5;

template <class Struct>
Struct WithChecksum(Struct fixed) {
  fixed.checksum = Checksum(&fixed, offsetof(Struct, checksum));
  return fixed;
}

template <class Struct>
std::span<const std::byte> BytesOf(const Struct& fixed) {
  return std::as_bytes(std::span(&fixed, 1));
}

// The struct of 64-bit fields at `bytes`, brought to this machine's byte order. None: damaged.
template <class Struct>
std::optional<Struct> Load(std::span<const std::byte> bytes, bool swapped) {
  Struct fixed;
  std::memcpy(&fixed, bytes.data(), sizeof fixed);
  uint64_t stored = fixed.checksum;
  if (swapped) stored = SwapBytes(stored);
  if (stored != Checksum(&fixed, offsetof(Struct, checksum))) return std::nullopt;
  if constexpr (std::is_same_v<Struct, ExtentName>) {
    if (swapped) fixed.length = SwapBytes(fixed.length);
  } else if (swapped) {
    SwapEach(std::as_writable_bytes(std::span(&fixed, 1)), sizeof(uint64_t));
  }
  return fixed;
}

ExtentName NameOf(const std::string& name) {
  ExtentName fixed;
  fixed.length = name.size();
  name.copy(fixed.text, sizeof fixed.text);
  return WithChecksum(fixed);
}

// Walks over the extents of an open node file.
class NodeReader {
 public:
  explicit NodeReader(std::unique_ptr<ReadableFile> file) : file_(std::move(file)) {}

  Status ReadHeader() {
    std::array<std::byte, sizeof(FileHeader)> bytes;
    TDUMP_RETURN_IF_ERROR(Read(0, bytes));
    FileHeader header;
    std::memcpy(&header, bytes.data(), sizeof header);
    swapped_ = header.magic == SwapBytes(kNodeMagic);
    uint64_t stored = header.checksum;
    uint16_t major = header.version_major;
    if (swapped_) stored = SwapBytes(stored), major = SwapBytes(major);
    if (header.magic != kNodeMagic && !swapped_)
      return Corrupt(
          fmt::format("{}: offset 0: magic: {:#018x}, expected {:#018x}; not a tdump node "
                      "file",
                      file_->path(), header.magic, kNodeMagic));
    if (stored != Checksum(&header, offsetof(FileHeader, checksum)))
      return Corrupt(file_->path() + ": offset 56: file header: checksum does not match");
    if (major != kVersionMajor)
      return Unsupported(fmt::format("{}: offset 12: version {}, this tdump reads version {}",
                                     file_->path(), major, kVersionMajor));
    return Status();
  }

  // None: damaged, by a machine that lost power.
  Result<std::optional<NodeState>> State() const {
    std::optional<NodeState> state;
    for (int reading = 0; reading < kReadings && !state; ++reading) {
      std::array<std::byte, sizeof(NodeState)> bytes;
      TDUMP_RETURN_IF_ERROR(Read(kNodeStateAt, bytes));
      state = Load<NodeState>(bytes, swapped_);
    }
    return state;
  }

  // The extents below `end`, each with its page.
  // The result is the first place where there is none; what follows is looked for at each page, if
  // `search` says so.
  template <class Visit>
  std::optional<uint64_t> ForEach(uint64_t end, bool search, Visit visit) const {
    std::optional<uint64_t> damaged;
    for (uint64_t at = kExtentPage; at < end;) {
      std::array<std::byte, kMemberSizeAt + sizeof(MemberSize)> page;
      const bool is_there = Read(at, page).ok();
      const auto header = is_there ? Load<ExtentHeader>(page, swapped_) : std::nullopt;
      const bool holds = header && header->magic == kExtentMagic && header->at == at &&
                         header->bytes != 0 && header->bytes % kExtentPage == 0 &&
                         header->bytes < uint64_t{1} << 62;
      if (holds) visit(*header, page);
      if (!holds && !damaged) damaged = at;
      if (!is_there || (damaged && !search)) break;
      at += kExtentPage + (holds ? header->bytes : 0);
    }
    return damaged;
  }

  std::optional<uint64_t> SizeOf(const NodeMember& member) const {
    for (int reading = 0; reading < kReadings; ++reading) {
      std::array<std::byte, sizeof(MemberSize)> bytes;
      if (!Read(member.extents.front().at + kMemberSizeAt, bytes).ok()) break;
      if (const auto size = Load<MemberSize>(bytes, swapped_)) return size->bytes;
    }
    return std::nullopt;
  }

  uint64_t size() const { return file_->Size(); }
  bool swapped() const { return swapped_; }

 private:
  Status Read(uint64_t offset, std::span<std::byte> bytes) const {
    TDUMP_ASSIGN_OR_RETURN(const size_t got, file_->ReadAt(offset, bytes));
    if (got == bytes.size()) return Status();
    return Corrupt(fmt::format("{}: offset {}: the file ends after {} of {} bytes", file_->path(),
                               offset, got, bytes.size()));
  }

  std::unique_ptr<ReadableFile> file_;
  bool swapped_ = false;
};

Result<NodeReader> OpenNodeFile(Env* env, const std::string& path) {
  TDUMP_ASSIGN_OR_RETURN(auto file, env->OpenRead(path));
  NodeReader reader(std::move(file));
  TDUMP_RETURN_IF_ERROR(reader.ReadHeader());
  return reader;
}

// Of a member until all its extents are seen.
struct Gathered {
  std::optional<NodeMember> member;
  bool removed = false;
  std::vector<NodeExtent> extents;
};

// Without those that a gap cuts off.
void Connect(std::vector<NodeExtent>* extents) {
  std::sort(extents->begin(), extents->end(),
            [](const NodeExtent& a, const NodeExtent& b) { return a.offset < b.offset; });
  uint64_t end = 0;
  size_t count = 0;
  for (const NodeExtent& extent : *extents) {
    if (extent.offset != end) break;
    end += extent.bytes;
    ++count;
  }
  extents->resize(count);
}

uint64_t RoomOf(const NodeMember& member) {
  return member.extents.back().offset + member.extents.back().bytes;
}

// `search`: behind a damaged place as well.
Result<NodeContents> Contents(const NodeReader& reader, bool search) {
  TDUMP_ASSIGN_OR_RETURN(const std::optional<NodeState> state, reader.State());
  std::map<uint64_t, Gathered> members;  // by their first extents
  const auto add = [&](const ExtentHeader& header, std::span<const std::byte> page) {
    Gathered& gathered = members[header.first];
    gathered.extents.push_back({header.at, header.offset, header.bytes});
    if (header.first != header.at) return;
    const auto name = Load<ExtentName>(page.subspan(kExtentNameAt), reader.swapped());
    const auto size = Load<MemberSize>(page.subspan(kMemberSizeAt), reader.swapped());
    gathered.removed = name && name->length == 0;
    if (!name || name->length == 0 || name->length > sizeof name->text) return;
    gathered.member = {std::string(name->text, name->length), size ? size->bytes : 0, {}};
  };
  NodeContents contents;
  contents.damaged = reader.ForEach(state ? state->end : reader.size(), search, add);
  if (!state) contents.damaged = kNodeStateAt;
  contents.changes = state ? state->changes : 0;
  for (auto& [first, gathered] : members) {
    if (gathered.removed)
      contents.free.insert(contents.free.end(), gathered.extents.begin(), gathered.extents.end());
    Connect(&gathered.extents);
    if (!gathered.member || gathered.extents.empty() || gathered.extents.front().at != first)
      continue;
    NodeMember& member = contents.members.emplace_back(std::move(*gathered.member));
    member.extents = std::move(gathered.extents);
    member.bytes = std::min(member.bytes, RoomOf(member));
  }
  std::sort(contents.free.begin(), contents.free.end(),
            [](const NodeExtent& a, const NodeExtent& b) { return a.at < b.at; });
  return contents;
}

}  // namespace

std::string NodeFileName(std::string_view host, std::string_view machine) {
  std::string name = fmt::format("{}{}_{}", kPrefix, host, machine);
  for (char& c : name) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '.' || c == '-';
    if (!plain) c = '_';
  }
  return name.append(kSuffix);
}

bool IsNodeFileName(std::string_view name) {
  return name.starts_with(kPrefix) && name.ends_with(kSuffix);
}

Result<NodeContents> ReadNodeFile(Env* env, const std::string& path) {
  TDUMP_ASSIGN_OR_RETURN(const NodeReader reader, OpenNodeFile(env, path));
  // Extents may become one while they are walked over.
  for (int reading = 1; reading < kReadings; ++reading) {
    Result<NodeContents> contents = Contents(reader, /*search=*/false);
    if (!contents.ok() || !contents->damaged) return contents;
  }
  return Contents(reader, /*search=*/true);
}

Result<NodeMoment> ReadNodeMoment(Env* env, const std::string& path, const NodeMember* member) {
  TDUMP_ASSIGN_OR_RETURN(const NodeReader reader, OpenNodeFile(env, path));
  TDUMP_ASSIGN_OR_RETURN(const std::optional<NodeState> state, reader.State());
  NodeMoment moment;
  if (state) moment.changes = state->changes;
  if (member != nullptr)
    moment.bytes = std::min(reader.SizeOf(*member).value_or(member->bytes), RoomOf(*member));
  return moment;
}

Status WriteMemberSize(WritableFile* file, uint64_t first, uint64_t bytes) {
  MemberSize size;
  size.bytes = bytes;
  return file->WriteAt(first + kMemberSizeAt, BytesOf(WithChecksum(size)));
}

// A page as it is written first. `name`: of a first extent, "" of one that nobody uses.
std::array<std::byte, kExtentPage> PageOf(const ExtentHeader& header, const std::string* name) {
  std::array<std::byte, kExtentPage> page{};  // no name and size of one that was here
  const ExtentHeader sealed = WithChecksum(header);
  std::memcpy(page.data(), &sealed, sizeof sealed);
  if (name == nullptr) return page;
  const ExtentName named = NameOf(*name);
  const MemberSize empty = WithChecksum(MemberSize());
  std::memcpy(page.data() + kExtentNameAt, &named, sizeof named);
  std::memcpy(page.data() + kMemberSizeAt, &empty, sizeof empty);
  return page;
}

// The file while the lock is held.
struct NodeWriter::Shared {
  Env* env;
  const std::string& path;
  std::unique_ptr<WritableFile> file;
  NodeState state;
  NodeContents contents;

  Status ReadContents() {
    TDUMP_ASSIGN_OR_RETURN(const NodeReader reader, OpenNodeFile(env, path));
    TDUMP_ASSIGN_OR_RETURN(contents, Contents(reader, /*search=*/true));
    return Status();
  }
  Status CountChange() {
    ++state.changes;
    return WriteState();
  }
  Status WriteState() { return file->WriteAt(kNodeStateAt, BytesOf(WithChecksum(state))); }
  const NodeMember* Find(const std::string& name) const {
    const auto found = std::find_if(contents.members.begin(), contents.members.end(),
                                    [&](const NodeMember& member) { return member.name == name; });
    return found == contents.members.end() ? nullptr : &*found;
  }
  Status SetName(const NodeMember& member, const std::string& name) {
    return file->WriteAt(member.extents.front().at + kExtentNameAt, BytesOf(NameOf(name)));
  }
  Status Discard(const NodeMember& member) {
    for (const NodeExtent& extent : member.extents)
      TDUMP_RETURN_IF_ERROR(file->Discard(extent.data(), extent.bytes));
    return Status();
  }
  // `member` has no name any more, and its data is given back. Its extents become one with the free
  // ones beside them, so that a ring leaves no page for each file that it removed. Who is killed
  // here leaves pages that nobody uses.
  Status Free(const NodeMember& member) {
    std::vector<NodeExtent> all = contents.free;
    all.insert(all.end(), member.extents.begin(), member.extents.end());
    std::sort(all.begin(), all.end(),
              [](const NodeExtent& a, const NodeExtent& b) { return a.at < b.at; });
    const auto is_new = [&](const NodeExtent& extent) {
      return std::any_of(member.extents.begin(), member.extents.end(),
                         [&](const NodeExtent& e) { return e.at == extent.at; });
    };
    for (size_t i = 0; i < all.size();) {
      NodeExtent run = all[i];
      bool changed = is_new(run);
      size_t next = i + 1;
      for (; next < all.size() && all[next].at == run.data() + run.bytes; ++next) {
        changed = true;
        run.bytes += kExtentPage + all[next].bytes;
      }
      if (changed) TDUMP_RETURN_IF_ERROR(WriteFree(run));
      for (size_t k = i + 1; k < next; ++k)
        TDUMP_RETURN_IF_ERROR(file->Discard(all[k].at, kExtentPage));
      i = next;
    }
    return Status();
  }
  Status WriteFree(const NodeExtent& extent) {
    ExtentHeader header;
    header.at = header.first = extent.at;
    header.bytes = extent.bytes;
    const std::string nobody;
    return file->WriteAt(extent.at, PageOf(header, &nobody));
  }
};

Status NodeWriter::Locked(const std::function<Status(Shared*)>& body) {
  return env_->WithLock(path_, kLockMs, [&]() -> Status {
    Shared shared{.env = env_, .path = path_, .file = nullptr, .state = {}, .contents = {}};
    TDUMP_ASSIGN_OR_RETURN(shared.file, env_->OpenShared(path_, 0600));
    TDUMP_ASSIGN_OR_RETURN(const FileInfo info, env_->Stat(path_));
    // One that was killed before its first state was whole leaves nothing that counts.
    if (info.bytes < kNodeStateAt + sizeof(NodeState)) {
      FileHeader header;
      header.magic = kNodeMagic;
      header.rank = -1;
      header.created_ns = static_cast<uint64_t>(env_->WallNs());
      shared.state.end = kExtentPage;
      TDUMP_RETURN_IF_ERROR(shared.file->WriteAt(0, BytesOf(Sealed(header))));
      TDUMP_RETURN_IF_ERROR(shared.WriteState());
    } else {
      TDUMP_ASSIGN_OR_RETURN(const NodeReader reader, OpenNodeFile(env_, path_));
      if (reader.swapped())
        return Unsupported(path_ + ": was written by a machine of the other byte order");
      TDUMP_ASSIGN_OR_RETURN(const std::optional<NodeState> state, reader.State());
      if (!state) return Corrupt(path_ + ": offset 512: state: checksum does not match");
      shared.state = *state;
    }
    TDUMP_RETURN_IF_ERROR(body(&shared));
    return shared.file->Close();
  });
}

// The header is written before the state that counts it: a process killed in between leaves the
// place to the next one.
Result<NodeExtent> NodeWriter::Append(Shared* shared, uint64_t first, uint64_t offset,
                                      uint64_t bytes, const std::string* name) {
  ExtentHeader header;
  header.at = shared->state.end;
  header.bytes = PadTo(bytes, kExtentPage);
  header.first = name != nullptr ? header.at : first;
  header.offset = offset;
  const Status room =
      shared->file->Preallocate(header.at, kExtentPage + header.bytes, /*or_zeros=*/false);
  if (!room.ok() && room.code() != StatusCode::kUnsupported) return room;
  TDUMP_RETURN_IF_ERROR(shared->file->WriteAt(header.at, PageOf(header, name)));
  // Blocks beyond the end of a file cannot be given back (ext4).
  TDUMP_RETURN_IF_ERROR(shared->file->Truncate(header.at + kExtentPage + header.bytes));
  shared->state.end = header.at + kExtentPage + header.bytes;
  TDUMP_RETURN_IF_ERROR(shared->CountChange());
  return NodeExtent{header.at, offset, header.bytes};
}

Result<NodeExtent> NodeWriter::Create(const std::string& name, uint64_t bytes) {
  if (name.empty() || name.size() > sizeof ExtentName::text)
    return InvalidArgument(fmt::format("{}: '{}' is too long a name", path_, name));
  NodeExtent made;
  TDUMP_RETURN_IF_ERROR(Locked([&](Shared* shared) -> Status {
    TDUMP_RETURN_IF_ERROR(shared->ReadContents());
    if (shared->Find(name) != nullptr)
      return Status(StatusCode::kAlreadyExists, fmt::format("{} has '{}' already", path_, name));
    TDUMP_ASSIGN_OR_RETURN(made, Append(shared, 0, 0, bytes, &name));
    return Status();
  }));
  return made;
}

Result<NodeExtent> NodeWriter::Extend(uint64_t first, uint64_t offset, uint64_t bytes) {
  NodeExtent made;
  TDUMP_RETURN_IF_ERROR(Locked([&](Shared* shared) -> Status {
    TDUMP_ASSIGN_OR_RETURN(made, Append(shared, first, offset, bytes, nullptr));
    return Status();
  }));
  return made;
}

Status NodeWriter::Rename(const std::string& from, const std::string& to) {
  if (to.empty() || to.size() > sizeof ExtentName::text)
    return InvalidArgument(fmt::format("{}: '{}' is too long a name", path_, to));
  return Locked([&](Shared* shared) -> Status {
    TDUMP_RETURN_IF_ERROR(shared->ReadContents());
    const NodeMember* member = shared->Find(from);
    if (member == nullptr) return NotFound(fmt::format("{} has no '{}'", path_, from));
    if (from == to) return Status();
    const NodeMember* other = shared->Find(to);
    TDUMP_RETURN_IF_ERROR(shared->SetName(*member, to));
    TDUMP_RETURN_IF_ERROR(shared->CountChange());
    if (other == nullptr) return Status();
    // Of two of one name, as one that is killed here leaves them, the later one counts.
    TDUMP_RETURN_IF_ERROR(shared->SetName(*other, ""));
    // What stays of it is a loss of room alone.
    if (shared->Discard(*other).ok()) (void)shared->Free(*other);
    return shared->CountChange();
  });
}

Status NodeWriter::Remove(const std::string& name) {
  return Locked([&](Shared* shared) -> Status {
    TDUMP_RETURN_IF_ERROR(shared->ReadContents());
    const NodeMember* member = shared->Find(name);
    if (member == nullptr) return NotFound(fmt::format("{} has no '{}'", path_, name));
    // Where blocks cannot be given back, a ring that takes names away gains nothing.
    const Status discarded = shared->Discard(*member);
    if (discarded.code() == StatusCode::kUnsupported) return discarded;
    TDUMP_RETURN_IF_ERROR(shared->SetName(*member, ""));
    if (discarded.ok()) (void)shared->Free(*member);  // else a loss of room alone
    TDUMP_RETURN_IF_ERROR(shared->CountChange());
    return discarded;
  });
}

}  // namespace tdump::io
