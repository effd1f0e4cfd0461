// An Env and a file that do what others do, for tests to override single functions of.
#pragma once

#include <memory>

#include "core/env.h"

namespace tdump::io::test {

class ForwardingEnv : public Env {
 public:
  using Path = const std::string&;
  explicit ForwardingEnv(std::unique_ptr<Env> base) : base_(std::move(base)) {}

  Result<std::unique_ptr<WritableFile>> CreateExclusive(Path path, int mode) override {
    return base_->CreateExclusive(path, mode);
  }
  Result<std::unique_ptr<WritableFile>> OpenAppend(Path path, int mode) override {
    return base_->OpenAppend(path, mode);
  }
  Result<std::unique_ptr<WritableFile>> OpenShared(Path path, int mode) override {
    return base_->OpenShared(path, mode);
  }
  Result<std::unique_ptr<ReadableFile>> OpenRead(Path path) override {
    return base_->OpenRead(path);
  }
  Result<std::unique_ptr<MappedFile>> Map(Path path) override { return base_->Map(path); }
  Status MakeDirs(Path path, int mode) override { return base_->MakeDirs(path, mode); }
  Status Rename(Path from, Path to) override { return base_->Rename(from, to); }
  Status Remove(Path path) override { return base_->Remove(path); }
  Status SyncDirectory(Path path) override { return base_->SyncDirectory(path); }
  Status Symlink(Path target, Path link) override { return base_->Symlink(target, link); }
  Result<FileInfo> Stat(Path path) override { return base_->Stat(path); }
  Result<std::vector<std::string>> List(Path directory) override { return base_->List(directory); }
  Result<uint64_t> FreeBytes(Path path) override { return base_->FreeBytes(path); }
  Status WithLock(Path path, int timeout_ms, const std::function<Status()>& body) override {
    return base_->WithLock(path, timeout_ms, body);
  }
  int64_t MonotonicNs() override { return base_->MonotonicNs(); }
  int64_t WallNs() override { return base_->WallNs(); }

 protected:
  const std::unique_ptr<Env> base_;
};

// Every write, appending or not, goes through WriteAt(); none is direct.
class ForwardingFile : public WritableFile {
 public:
  explicit ForwardingFile(std::unique_ptr<WritableFile> base) : base_(std::move(base)) {}

  Status Append(std::span<const std::byte> bytes) override { return WriteAt(Size(), bytes); }
  Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) override {
    return base_->WriteAt(offset, bytes);
  }
  Status Preallocate(uint64_t offset, uint64_t bytes, bool or_zeros) override {
    return base_->Preallocate(offset, bytes, or_zeros);
  }
  Status Discard(uint64_t offset, uint64_t bytes) override { return base_->Discard(offset, bytes); }
  Status Truncate(uint64_t bytes) override { return base_->Truncate(bytes); }
  Status Sync() override { return base_->Sync(); }
  Status Close() override { return base_->Close(); }
  uint64_t Size() const override { return base_->Size(); }

 protected:
  const std::unique_ptr<WritableFile> base_;
};

}  // namespace tdump::io::test
