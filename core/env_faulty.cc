// Wraps another Env and fails chosen calls. Calls are counted over all files of the wrapper,
// retries included. Names: open, write, write_direct, fallocate, ftruncate, fsync, close, read,
// mmap, mkdir, rename, unlink, symlink, stat, list, statvfs, flock.
#include <atomic>

#include "core/env.h"
#include "core/env_retry.h"

namespace tdump {
namespace {

struct Faults {
  FaultPlan plan;
  std::atomic<uint64_t> next{0};
  int Ask(std::string_view call, std::string_view path) {
    return plan(next.fetch_add(1), call, path);
  }
};

int ErrnoOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kNoSpace:
      return ENOSPC;
    case StatusCode::kNotFound:
      return ENOENT;
    case StatusCode::kAlreadyExists:
      return EEXIST;
    default:
      return EIO;
  }
}

class FaultyWritableFile final : public WritableFile {
 public:
  FaultyWritableFile(std::string path, std::unique_ptr<WritableFile> base,
                     std::shared_ptr<Faults> faults)
      : path_(std::move(path)), base_(std::move(base)), faults_(std::move(faults)) {}

  Status Append(std::span<const std::byte> bytes) override { return WriteAt(base_->Size(), bytes); }

  Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) override {
    uint64_t written = 0;
    Status failed;
    const int error =
        internal::WriteFully(bytes, &written, [&](const std::byte* data, size_t count) {
          return Write("write", offset + written, {data, count}, &failed);
        });
    return Wrote(error, bytes.size(), offset, failed);
  }

  // Allowed wherever the plan does not refuse it with EINVAL.
  Result<bool> WriteDirect(uint64_t offset, std::span<const std::byte> bytes) override {
    uint64_t written = 0;
    bool refused = false;
    Status failed;
    const auto write = [&](std::string_view call) {
      return [&, call](const std::byte* data, size_t count) {
        return Write(call, offset + written, {data, count}, &failed);
      };
    };
    const int error = internal::WriteDirectly(bytes, kDirectAlign, &written, &refused,
                                              write("write_direct"), write("write"));
    TDUMP_RETURN_IF_ERROR(Wrote(error, bytes.size(), offset, failed));
    return !refused;
  }

  Status Preallocate(uint64_t offset, uint64_t bytes, bool or_zeros) override {
    TDUMP_RETURN_IF_ERROR(
        Check("fallocate", "cannot preallocate " + std::to_string(bytes) + " bytes of"));
    return base_->Preallocate(offset, bytes, or_zeros);
  }
  Status Discard(uint64_t offset, uint64_t bytes) override {
    TDUMP_RETURN_IF_ERROR(Check("fallocate", "cannot give back blocks of"));
    return base_->Discard(offset, bytes);
  }
  Status Truncate(uint64_t bytes) override {
    TDUMP_RETURN_IF_ERROR(Check("ftruncate", "cannot truncate"));
    return base_->Truncate(bytes);
  }
  Status Sync() override {
    TDUMP_RETURN_IF_ERROR(Check("fsync", "cannot sync"));
    return base_->Sync();
  }
  Status Close() override {
    Status fault = Check("close", "cannot close");
    Status closed = base_->Close();
    return fault.ok() ? closed : fault;
  }
  uint64_t Size() const override { return base_->Size(); }

 private:
  // As write(2). `*failed`: why the file below did not take it.
  ssize_t Write(std::string_view call, uint64_t offset, std::span<const std::byte> bytes,
                Status* failed) {
    const int fault = faults_->Ask(call, path_);
    if (fault > 0) {
      errno = fault;
      return -1;
    }
    const size_t take = fault == kShortWrite ? (bytes.size() + 1) / 2 : bytes.size();
    *failed = base_->WriteAt(offset, bytes.first(take));
    if (failed->ok()) return static_cast<ssize_t>(take);
    errno = ErrnoOf(*failed);
    return -1;
  }
  Status Wrote(int error, uint64_t bytes, uint64_t offset, const Status& failed) const {
    if (!failed.ok()) return failed;
    if (error == 0) return Status();
    return ErrnoStatus(error,
                       "cannot write " + std::to_string(bytes) + " bytes at offset " +
                           std::to_string(offset) + " of",
                       path_);
  }
  Status Check(std::string_view call, std::string_view action) {
    int fault;
    do fault = faults_->Ask(call, path_);
    while (fault == EINTR);  // as the posix environment does; of close it says that it is closed
    return fault > 0 ? ErrnoStatus(fault, action, path_) : Status();
  }

  const std::string path_;
  const std::unique_ptr<WritableFile> base_;
  const std::shared_ptr<Faults> faults_;
};

class FaultyReadableFile final : public ReadableFile {
 public:
  FaultyReadableFile(std::unique_ptr<ReadableFile> base, std::shared_ptr<Faults> faults)
      : base_(std::move(base)), faults_(std::move(faults)) {}
  Result<size_t> ReadAt(uint64_t offset, std::span<std::byte> bytes) const override {
    const int fault = faults_->Ask("read", base_->path());
    if (fault > 0 && fault != EINTR) return ErrnoStatus(fault, "cannot read", base_->path());
    return base_->ReadAt(offset, bytes);
  }
  uint64_t Size() const override { return base_->Size(); }
  const std::string& path() const override { return base_->path(); }
  void Rest() override { base_->Rest(); }

 private:
  const std::unique_ptr<ReadableFile> base_;
  const std::shared_ptr<Faults> faults_;
};

class FaultyEnv final : public Env {
 public:
  FaultyEnv(Env* base, FaultPlan plan) : base_(base), faults_(std::make_shared<Faults>()) {
    faults_->plan = std::move(plan);
  }

  Result<std::unique_ptr<WritableFile>> CreateExclusive(const std::string& path,
                                                        int mode) override {
    TDUMP_RETURN_IF_ERROR(Check("open", "cannot create", path));
    return Wrap(path, base_->CreateExclusive(path, mode));
  }
  Result<std::unique_ptr<WritableFile>> OpenAppend(const std::string& path, int mode) override {
    TDUMP_RETURN_IF_ERROR(Check("open", "cannot open", path));
    return Wrap(path, base_->OpenAppend(path, mode));
  }
  Result<std::unique_ptr<WritableFile>> OpenShared(const std::string& path, int mode) override {
    TDUMP_RETURN_IF_ERROR(Check("open", "cannot open", path));
    return Wrap(path, base_->OpenShared(path, mode));
  }
  Result<std::unique_ptr<ReadableFile>> OpenRead(const std::string& path) override {
    TDUMP_RETURN_IF_ERROR(Check("open", "cannot open", path));
    TDUMP_ASSIGN_OR_RETURN(auto file, base_->OpenRead(path));
    return std::unique_ptr<ReadableFile>(new FaultyReadableFile(std::move(file), faults_));
  }
  Result<std::unique_ptr<MappedFile>> Map(const std::string& path) override {
    TDUMP_RETURN_IF_ERROR(Check("mmap", "cannot map", path));
    return base_->Map(path);
  }
  Status MakeDirs(const std::string& path, int mode) override {
    const auto make = [&](const std::string& part) {
      const int fault = faults_->Ask("mkdir", part);
      if (fault > 0) return fault;
      const Status made = base_->MakeDirs(part, mode);
      return made.ok() ? 0 : ErrnoOf(made);
    };
    const auto is_directory = [&](const std::string& part) {
      if (faults_->Ask("stat", part) > 0) return false;
      const Result<FileInfo> info = base_->Stat(part);
      return info.ok() && info->is_directory;
    };
    const int error = internal::MakeDirsWithRetry(path, make, is_directory);
    return error == 0 ? Status() : ErrnoStatus(error, "cannot make the directory", path);
  }
  Status Rename(const std::string& from, const std::string& to) override {
    TDUMP_RETURN_IF_ERROR(Check("rename", "cannot rename '" + from + "' to", to));
    return base_->Rename(from, to);
  }
  Status Remove(const std::string& path) override {
    TDUMP_RETURN_IF_ERROR(Check("unlink", "cannot remove", path));
    return base_->Remove(path);
  }
  Status SyncDirectory(const std::string& path) override {
    TDUMP_RETURN_IF_ERROR(Check("fsync", "cannot sync the directory", path));
    return base_->SyncDirectory(path);
  }
  Status Symlink(const std::string& target, const std::string& link) override {
    TDUMP_RETURN_IF_ERROR(Check("symlink", "cannot link", link));
    return base_->Symlink(target, link);
  }
  Result<FileInfo> Stat(const std::string& path) override {
    TDUMP_RETURN_IF_ERROR(Check("stat", "cannot stat", path));
    return base_->Stat(path);
  }
  Result<std::vector<std::string>> List(const std::string& directory) override {
    TDUMP_RETURN_IF_ERROR(Check("list", "cannot list", directory));
    return base_->List(directory);
  }
  Result<uint64_t> FreeBytes(const std::string& path) override {
    TDUMP_RETURN_IF_ERROR(Check("statvfs", "cannot ask the free space of", path));
    return base_->FreeBytes(path);
  }
  Status WithLock(const std::string& path, int timeout_ms,
                  const std::function<Status()>& body) override {
    TDUMP_RETURN_IF_ERROR(Check("flock", "cannot lock", path));
    return base_->WithLock(path, timeout_ms, body);
  }
  int64_t MonotonicNs() override { return base_->MonotonicNs(); }
  int64_t WallNs() override { return base_->WallNs(); }

 private:
  Status Check(std::string_view call, std::string_view action, const std::string& path) {
    int fault;
    do fault = faults_->Ask(call, path);
    while (fault == EINTR);  // as the posix environment does
    return fault > 0 ? ErrnoStatus(fault, action, path) : Status();
  }
  Result<std::unique_ptr<WritableFile>> Wrap(const std::string& path,
                                             Result<std::unique_ptr<WritableFile>> base) {
    if (!base.ok()) return base;
    return std::unique_ptr<WritableFile>(new FaultyWritableFile(path, std::move(*base), faults_));
  }

  Env* const base_;
  const std::shared_ptr<Faults> faults_;
};

}  // namespace

std::unique_ptr<Env> NewFaultyEnv(Env* base, FaultPlan plan) {
  return std::make_unique<FaultyEnv>(base, std::move(plan));
}

}  // namespace tdump
