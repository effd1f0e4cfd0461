#include "io/node_member.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace tdump::io {
namespace {

constexpr uint64_t kLeastExtent = 64 * 1024;
// What is not used stays in the file's size: a copy that knows no holes writes it out.
constexpr uint64_t kMostAhead = 16 << 20;

// Calls `visit(extent, offset in its data, offset in the range, bytes)` for each part of the range
// that an extent holds, until one fails.
template <class Visit>
Status ForEachPart(const std::vector<NodeExtent>& extents, uint64_t offset, uint64_t bytes,
                   Visit visit) {
  auto extent = std::upper_bound(extents.begin(), extents.end(), offset,
                                 [](uint64_t at, const NodeExtent& e) { return at < e.offset; });
  if (extent != extents.begin()) --extent;
  for (uint64_t done = 0; done < bytes && extent != extents.end(); ++extent) {
    const uint64_t from = offset + done - extent->offset;
    if (from >= extent->bytes) continue;
    const uint64_t part = std::min(bytes - done, extent->bytes - from);
    TDUMP_RETURN_IF_ERROR(visit(*extent, from, done, part));
    done += part;
  }
  return Status();
}

class WritableMember final : public WritableFile {
 public:
  // `is_new`: nobody else has room in it.
  WritableMember(NodeWriter writer, std::unique_ptr<WritableFile> file, NodeMember member,
                 bool is_new)
      : writer_(std::move(writer)),
        file_(std::move(file)),
        extents_(std::move(member.extents)),
        size_(member.bytes),
        made_room_(is_new) {}
  ~WritableMember() override { (void)Close(); }

  Status Append(std::span<const std::byte> bytes) override { return WriteAt(size_, bytes); }

  Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) override {
    return Write(offset, bytes, [&](uint64_t at, std::span<const std::byte> part) {
      return file_->WriteAt(at, part);
    });
  }

  // Data begins at pages, so what lies at a page of the member does in the node file.
  Result<bool> WriteDirect(uint64_t offset, std::span<const std::byte> bytes) override {
    bool direct = true;
    TDUMP_RETURN_IF_ERROR(
        Write(offset, bytes, [&](uint64_t at, std::span<const std::byte> part) -> Status {
          TDUMP_ASSIGN_OR_RETURN(const bool went, file_->WriteDirect(at, part));
          direct = direct && went;
          return Status();
        }));
    return direct;
  }

  Status Preallocate(uint64_t offset, uint64_t bytes, bool or_zeros) override {
    const uint64_t room = Room();
    TDUMP_RETURN_IF_ERROR(MakeRoom(offset + bytes, 0));
    if (Room() == room) return Status();
    const Status reserved =
        file_->Preallocate(extents_.back().data(), extents_.back().bytes, false);
    if (reserved.code() != StatusCode::kUnsupported || !or_zeros) return reserved;
    return WriteZeros(room, Room());
  }

  Status Discard(uint64_t offset, uint64_t bytes) override {
    return ForEachPart(extents_, offset, bytes,
                       [&](const NodeExtent& extent, uint64_t from, uint64_t, uint64_t part) {
                         return file_->Discard(extent.data() + from, part);
                       });
  }

  // What is cut off reads as zeros where the member grows again.
  Status Truncate(uint64_t bytes) override {
    if (bytes > size_) TDUMP_RETURN_IF_ERROR(MakeRoom(bytes, 0));
    TDUMP_RETURN_IF_ERROR(WriteZeros(bytes, size_));
    size_ = bytes;
    return WriteMemberSize(file_.get(), extents_.front().at, size_);
  }
  Status Sync() override { return file_->Sync(); }

  // Gives back what was not used, if it is this one that made room: another may be writing there.
  Status Close() override {
    if (closed_) return Status();
    closed_ = true;
    const uint64_t used = PadTo(size_, kExtentPage);
    const uint64_t room = Room();
    if (made_room_ && used < room) (void)Discard(used, room - used);
    return file_->Close();
  }
  uint64_t Size() const override { return size_; }

 private:
  using WritePart = std::function<Status(uint64_t, std::span<const std::byte>)>;

  uint64_t Room() const { return extents_.back().offset + extents_.back().bytes; }

  Status WriteZeros(uint64_t from, uint64_t to) {
    static constexpr std::array<std::byte, 16384> kZeros{};
    while (from < to) {
      const uint64_t count = std::min<uint64_t>(kZeros.size(), to - from);
      TDUMP_RETURN_IF_ERROR(WriteParts(
          from, std::span(kZeros).first(count),
          [&](uint64_t at, std::span<const std::byte> part) { return file_->WriteAt(at, part); }));
      from += count;
    }
    return Status();
  }

  // Up to `end`, and `ahead` more where the disk has it.
  Status MakeRoom(uint64_t end, uint64_t ahead) {
    const uint64_t room = Room();
    if (end <= room) return Status();
    const uint64_t least = std::max(end - room, kLeastExtent);
    auto extent = writer_.Extend(extents_.front().at, room, least + ahead);
    if (!extent.ok() && extent.status().code() == StatusCode::kNoSpace)
      extent = writer_.Extend(extents_.front().at, room, end - room);
    TDUMP_RETURN_IF_ERROR(extent.status());
    extents_.push_back(*extent);
    made_room_ = true;
    return Status();
  }

  Status WriteParts(uint64_t offset, std::span<const std::byte> bytes, const WritePart& write) {
    return ForEachPart(extents_, offset, bytes.size(),
                       [&](const NodeExtent& extent, uint64_t from, uint64_t done, uint64_t part) {
                         return write(extent.data() + from, bytes.subspan(done, part));
                       });
  }

  Status Write(uint64_t offset, std::span<const std::byte> bytes, const WritePart& write) {
    if (bytes.empty()) return Status();
    const uint64_t end = offset + bytes.size();
    TDUMP_RETURN_IF_ERROR(MakeRoom(end, std::min(Room() / 2, kMostAhead)));
    TDUMP_RETURN_IF_ERROR(WriteParts(offset, bytes, write));
    if (end <= size_) return Status();
    TDUMP_RETURN_IF_ERROR(WriteMemberSize(file_.get(), extents_.front().at, end));
    size_ = end;
    return Status();
  }

  NodeWriter writer_;
  const std::unique_ptr<WritableFile> file_;
  std::vector<NodeExtent> extents_;
  uint64_t size_;
  bool made_room_;
  bool closed_ = false;
};

Result<std::unique_ptr<WritableFile>> Open(const NodeWriter& writer, const NodeMember& member,
                                           bool is_new) {
  TDUMP_ASSIGN_OR_RETURN(auto file, writer.env()->OpenShared(writer.path(), 0600));
  return std::unique_ptr<WritableFile>(new WritableMember(writer, std::move(file), member, is_new));
}

class ReadableMember final : public ReadableFile {
 public:
  ReadableMember(std::unique_ptr<ReadableFile> file, NodeMember member, std::string shown)
      : file_(std::move(file)), member_(std::move(member)), shown_(std::move(shown)) {}

  Result<size_t> ReadAt(uint64_t offset, std::span<std::byte> bytes) const override {
    const uint64_t left = offset < member_.bytes ? member_.bytes - offset : 0;
    const size_t wanted = std::min<uint64_t>(bytes.size(), left);
    TDUMP_RETURN_IF_ERROR(ForEachPart(
        member_.extents, offset, wanted,
        [&](const NodeExtent& extent, uint64_t from, uint64_t done, uint64_t part) -> Status {
          const auto out = bytes.subspan(done, part);
          TDUMP_ASSIGN_OR_RETURN(const size_t got, file_->ReadAt(extent.data() + from, out));
          std::fill(out.begin() + static_cast<ptrdiff_t>(got), out.end(), std::byte{0});
          return Status();
        }));
    return wanted;
  }
  uint64_t Size() const override { return member_.bytes; }
  const std::string& path() const override { return shown_; }
  void Rest() override { file_->Rest(); }

 private:
  const std::unique_ptr<ReadableFile> file_;
  const NodeMember member_;
  const std::string shown_;
};

}  // namespace

Result<std::unique_ptr<WritableFile>> OpenMember(const NodeWriter& writer,
                                                 const NodeMember& member) {
  return Open(writer, member, false);
}

Result<std::unique_ptr<WritableFile>> CreateMember(const NodeWriter& writer,
                                                   const std::string& name) {
  NodeWriter creating = writer;
  const auto extent = creating.Create(name, kLeastExtent);
  if (!extent.ok() && extent.status().code() == StatusCode::kAlreadyExists) return extent.status();
  auto file = extent.ok() ? Open(writer, {name, 0, {*extent}}, true) : extent.status();
  if (!file.ok()) (void)creating.Remove(name);  // it may have been made before the error
  return file;
}

Result<std::unique_ptr<ReadableFile>> ReadMember(Env* env, const std::string& node_file,
                                                 const NodeMember& member, std::string shown) {
  TDUMP_ASSIGN_OR_RETURN(auto file, env->OpenRead(node_file));
  return std::unique_ptr<ReadableFile>(
      new ReadableMember(std::move(file), member, std::move(shown)));
}

}  // namespace tdump::io
