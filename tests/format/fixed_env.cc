#include "tests/format/fixed_env.h"

namespace tdump::io::test {
namespace {

class FixedEnv final : public Env {
 public:
  using Path = const std::string&;
  Result<std::unique_ptr<WritableFile>> CreateExclusive(Path path, int mode) override {
    return base_->CreateExclusive(path, mode);
  }
  Result<std::unique_ptr<WritableFile>> OpenAppend(Path path, int mode) override {
    return base_->OpenAppend(path, mode);
  }
  Result<std::unique_ptr<ReadableFile>> OpenRead(Path path) override {
    return base_->OpenRead(path);
  }
  Result<std::unique_ptr<MappedFile>> Map(Path path) override { return base_->Map(path); }
  Status MakeDirs(Path path, int mode) override { return base_->MakeDirs(path, mode); }
  Status Rename(Path from, Path to) override { return base_->Rename(from, to); }
  Status Remove(Path path) override { return base_->Remove(path); }
  Status Symlink(Path target, Path link) override { return base_->Symlink(target, link); }
  Result<FileInfo> Stat(Path path) override {
    Result<FileInfo> info = base_->Stat(path);
    if (info.ok()) info->mtime_ns = kFixedNs;
    return info;
  }
  Result<std::vector<std::string>> List(Path directory) override { return base_->List(directory); }
  Result<uint64_t> FreeBytes(Path path) override { return base_->FreeBytes(path); }
  Status WithLock(Path path, int timeout_ms, const std::function<Status()>& body) override {
    return base_->WithLock(path, timeout_ms, body);
  }
  int64_t MonotonicNs() override { return kFixedNs; }
  int64_t WallNs() override { return kFixedNs; }

 private:
  std::unique_ptr<Env> base_ = NewMemoryEnv();
};

}  // namespace

std::unique_ptr<Env> NewFixedEnv() { return std::make_unique<FixedEnv>(); }

}  // namespace tdump::io::test
