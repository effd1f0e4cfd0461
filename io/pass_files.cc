#include "io/pass_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "io/archive.h"
#include "io/earlier_payloads.h"
#include "io/format.h"
#include "io/frame_builder.h"
#include "io/pass_writer.h"
#include "io/preallocation.h"

namespace tdump::io {
namespace {

constexpr uint64_t kMostRingFile = 1 << 30;

}  // namespace

std::string PackFileName(uint64_t number) { return fmt::format("pack{:05d}.tdp", number); }

// A packed file that is open. One PackPlace at a time writes to it.
struct PackFile {
  std::string name;       // the final one
  std::string part_name;  // until it is closed
  std::unique_ptr<WritableFile> file;
  Preallocation room;
  EarlierPayloads earlier;
  bool in_use = false;
  uint64_t passes = 0;
  uint64_t first = 0, last = 0;  // ordinals
};

class PackPlace final : public PassPlace {
 public:
  PackPlace(PassFiles* owner, PackFile* pack)
      : owner_(*owner),
        pack_(pack),
        name_(pack->part_name),
        before_(pack->passes == 0 ? 0 : pack->file->Size()),
        offset_(PadTo(pack->file->Size(), kPackAlign)) {}
  ~PackPlace() override { GiveBack(true); }

  Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) override {
    if (pack_ == nullptr) return Internal(name_ + ": the pass has ended");
    WritableFile* file = pack_->file.get();
    const uint64_t at = offset_ + offset;
    if (at + bytes.size() > file->Size())
      TDUMP_RETURN_IF_ERROR(pack_->room.Ensure(file, at, bytes.size()));
    const Status written = owner_.direct_.WriteAt(file, at, bytes);
    size_ = file->Size() > offset_ ? file->Size() - offset_ : 0;
    return written;
  }
  uint64_t Size() const override { return size_; }

  Status Finish() override {
    if (SyncsPasses(owner_.options_.durability)) TDUMP_RETURN_IF_ERROR(pack_->file->Sync());
    TDUMP_RETURN_IF_ERROR(
        ReadBackFooter(owner_.env_, JoinPath(owner_.directory_, name_), offset_, size_));
    name_ = pack_->name;
    GiveBack(false);
    return Status();
  }
  void Fail() override { GiveBack(true); }

  const std::string& file_name() const override { return name_; }
  uint64_t offset() const override { return offset_; }
  uint64_t overhead() const override { return offset_ - before_; }
  EarlierPayloads* earlier() override { return pack_ != nullptr ? &pack_->earlier : nullptr; }

 private:
  void GiveBack(bool failed) {
    if (PackFile* pack = std::exchange(pack_, nullptr)) owner_.GiveBack(pack, failed);
  }

  PassFiles& owner_;
  PackFile* pack_;  // nullptr: given back
  std::string name_;
  const uint64_t before_;  // bytes of the file that were accounted for
  const uint64_t offset_;
  uint64_t size_ = 0;
};

// Tells its owner when its file is whole, for the ring.
class PassFiles::SinglePlace final : public PassPlace {
 public:
  SinglePlace(PassFiles* owner, uint64_t ordinal, std::unique_ptr<PassPlace> file)
      : owner_(*owner), ordinal_(ordinal), file_(std::move(file)) {}
  Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) override {
    return file_->WriteAt(offset, bytes);
  }
  uint64_t Size() const override { return file_->Size(); }
  Status Finish() override {
    TDUMP_RETURN_IF_ERROR(file_->Finish());
    std::lock_guard lock(owner_.mutex_);
    owner_.Closed({file_->file_name(), Size(), ordinal_, ordinal_});
    return Status();
  }
  void Fail() override {
    file_->Fail();
    std::lock_guard lock(owner_.mutex_);
    owner_.Closed({file_->file_name(), Size(), ordinal_, ordinal_});
  }
  const std::string& file_name() const override { return file_->file_name(); }

 private:
  PassFiles& owner_;
  const uint64_t ordinal_;
  const std::unique_ptr<PassPlace> file_;
};

PassFiles::PassFiles(Env* env, std::string directory, PassFilesOptions options)
    : env_(env),
      directory_(std::move(directory)),
      options_(options),
      direct_(env, options.direct) {}

PassFiles::~PassFiles() { (void)Close(); }

void PassFiles::OnRemoved(std::function<void(const RemovedSection&)> removed) {
  removed_ = std::move(removed);
}

Result<std::unique_ptr<PassPlace>> PassFiles::Place(const PassInfo& info, uint64_t job_hash) {
  std::lock_guard lock(mutex_);
  if (placed_ == 0) first_ordinal_ = info.ordinal;
  if (placed_ >= options_.single_files) return PlaceInPack(info, job_hash);
  TDUMP_ASSIGN_OR_RETURN(
      auto file, NewFileOfOnePass(env_, directory_, info.ordinal, options_.durability, &direct_));
  ++placed_;
  return std::unique_ptr<PassPlace>(new SinglePlace(this, info.ordinal, std::move(file)));
}

Result<std::unique_ptr<PassPlace>> PassFiles::PlaceInPack(const PassInfo& info, uint64_t job_hash) {
  auto pack = std::find_if(packs_.begin(), packs_.end(), [](const auto& p) { return !p->in_use; });
  if (pack == packs_.end()) {
    const std::string name = PackFileName(packs_made_);
    const std::string part = name + std::string(kPartSuffix);
    TDUMP_ASSIGN_OR_RETURN(auto file, env_->CreateExclusive(JoinPath(directory_, part), 0600));
    FileHeader header;
    header.magic = kPackMagic;
    header.ordinal = packs_made_++;
    header.rank = info.rank;
    header.generation = info.generation;
    header.pid = info.pid;
    header.job_hash = job_hash;
    header.created_ns = static_cast<uint64_t>(env_->WallNs());
    std::string bytes;
    AppendStruct(Sealed(header), &bytes);
    TDUMP_RETURN_IF_ERROR(file->Append(std::as_bytes(std::span(bytes))));
    if (options_.durability == Durability::kPass)
      TDUMP_RETURN_IF_ERROR(env_->SyncDirectory(directory_));
    auto made = std::make_unique<PackFile>();
    made->name = name;
    made->part_name = part;
    made->file = std::move(file);
    made->first = info.ordinal;
    packs_.push_back(std::move(made));
    pack = packs_.end() - 1;
  }
  ++placed_;
  auto place = std::make_unique<PackPlace>(this, pack->get());
  (*pack)->in_use = true;
  (*pack)->last = info.ordinal;
  ++(*pack)->passes;
  return std::unique_ptr<PassPlace>(std::move(place));
}

// In a ring the file is what goes at once, and none of it may while it is open: a small part of the
// limit, however small that is, and the first pass alone. Where room was wanted in vain, the disk
// has less than the limit.
bool PassFiles::IsFull(const PackFile& pack) const {
  if (!options_.ring) return false;
  const uint64_t most = std::min(options_.ring_bytes / 16, kMostRingFile);
  return wanted_room_ || pack.file->Size() >= most || pack.first == first_ordinal_;
}

void PassFiles::GiveBack(PackFile* pack, bool failed) {
  std::lock_guard lock(mutex_);
  pack->in_use = false;
  const auto place =
      std::find_if(packs_.begin(), packs_.end(), [&](const auto& p) { return p.get() == pack; });
  if (failed) {
    (void)pack->file->Close();
    Closed({pack->part_name, pack->file->Size(), pack->first, pack->last});
    packs_.erase(place);
  } else if (IsFull(*pack)) {
    (void)ClosePack(pack);
    packs_.erase(place);
    wanted_room_ = false;
  }
}

Status PassFiles::ClosePack(PackFile* pack) {
  const std::string part = JoinPath(directory_, pack->part_name);
  Status status = pack->file->Close();
  if (status.ok()) status = env_->Rename(part, JoinPath(directory_, pack->name));
  if (status.ok() && options_.durability == Durability::kPass)
    status = env_->SyncDirectory(directory_);
  Closed({status.ok() ? pack->name : pack->part_name, pack->file->Size(), pack->first, pack->last});
  return status;
}

void PassFiles::Closed(ClosedFile file) {
  if (options_.durability == Durability::kFinalize) unsynced_.push_back(file.name);
  if (options_.ring) closed_.push_back(std::move(file));
}

bool PassFiles::MayRemove(const ClosedFile& file) const {
  return file.first != first_ordinal_ || file.bytes > options_.ring_bytes / 4;
}

uint64_t PassFiles::MakeRoom(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  uint64_t freed = 0;
  auto file = closed_.begin();
  while (options_.ring && freed < bytes && file != closed_.end()) {
    if (!MayRemove(*file)) {
      ++file;
      continue;
    }
    if (removed_) removed_({file->first, file->last, file->bytes, file->name});
    const Status removed = env_->Remove(JoinPath(directory_, file->name));
    if (removed.code() == StatusCode::kUnsupported) closed_.clear();  // nor can any other
    if (closed_.empty()) break;
    if (removed.ok()) freed += file->bytes;
    std::erase(unsynced_, file->name);
    file = closed_.erase(file);  // one that cannot be removed is not tried again
  }
  wanted_room_ = freed < bytes;
  return freed;
}

Status PassFiles::Close() {
  std::lock_guard lock(mutex_);
  Status first;
  std::erase_if(packs_, [&](const std::unique_ptr<PackFile>& pack) {
    if (pack->in_use) return false;
    const Status closed = ClosePack(pack.get());
    if (first.ok()) first = closed;
    return true;
  });
  if (unsynced_.empty()) return first;
  for (const std::string& name : std::exchange(unsynced_, {})) {
    auto file = env_->OpenAppend(JoinPath(directory_, name), 0600);
    const Status synced = file.ok() ? (*file)->Sync() : file.status();
    if (first.ok()) first = synced;
  }
  const Status synced = env_->SyncDirectory(directory_);
  return first.ok() ? synced : first;
}

}  // namespace tdump::io
