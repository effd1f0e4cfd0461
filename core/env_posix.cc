// The real operating system.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <mutex>

#include "core/env.h"
#include "core/env_retry.h"
#include "core/owned_fd.h"

namespace tdump {
namespace {

int64_t ClockNs(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

using internal::OwnedFd;

Status WriteError(int error, const char* action, uint64_t bytes, uint64_t offset,
                  const std::string& path) {
  return ErrnoStatus(error,
                     std::string("cannot ") + action + " " + std::to_string(bytes) +
                         " bytes at offset " + std::to_string(offset) + " of",
                     path);
}

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(std::unique_ptr<OwnedFd> file, uint64_t size, bool shared = false)
      : file_(std::move(file)), shared_(shared), size_(size), length_(size) {}
  ~PosixWritableFile() override { (void)Close(); }

  Status Append(std::span<const std::byte> bytes) override { return WriteAt(size_, bytes); }

  Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) override {
    uint64_t written = 0;
    const int fd = file_->get();
    const int error =
        fd < 0 ? file_->error()
               : internal::WriteFully(bytes, &written, [&](const std::byte* data, size_t count) {
                   return ::pwrite(fd, data, count, static_cast<off_t>(offset + written));
                 });
    return Wrote(error, bytes.size(), offset, written);
  }

  // One descriptor for both ways, so that the program's limit of open files is left alone. The flag
  // is its state only within this call: the next one may find the file opened anew.
  Result<bool> WriteDirect(uint64_t offset, std::span<const std::byte> bytes) override {
    uint64_t written = 0;
    bool is_direct = false, refused = false;
    const int fd = file_->get();
    const auto write = [&](bool direct, const std::byte* data, size_t count) -> ssize_t {
      if (direct != is_direct && ::fcntl(fd, F_SETFL, direct ? O_DIRECT : 0) != 0) return -1;
      is_direct = direct;
      return ::pwrite(fd, data, count, static_cast<off_t>(offset + written));
    };
    const int error =
        fd < 0
            ? file_->error()
            : internal::WriteDirectly(
                  bytes, kDirectAlign, &written, &refused,
                  [&](const std::byte* data, size_t count) { return write(true, data, count); },
                  [&](const std::byte* data, size_t count) { return write(false, data, count); });
    if (is_direct) (void)::fcntl(fd, F_SETFL, 0);
    TDUMP_RETURN_IF_ERROR(Wrote(error, bytes.size(), offset, written));
    return !refused;
  }

  Status Preallocate(uint64_t offset, uint64_t bytes, bool or_zeros) override {
    const int fd = file_->get();
    if (fd < 0) return WriteError(file_->error(), "preallocate", bytes, offset, file_->path());
    int error;
    do
      error = ::fallocate(fd, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                          static_cast<off_t>(bytes)) == 0
                  ? 0
                  : errno;
    while (error == EINTR);
    const bool unsupported = error == EOPNOTSUPP || error == ENOSYS;
    if (unsupported && !or_zeros) return Unsupported(file_->path() + ": no preallocation here");
    if (unsupported)
      error = WriteZeros(fd, offset + bytes);
    else
      reserved_ = reserved_ || error == 0;
    return error == 0 ? Status() : WriteError(error, "preallocate", bytes, offset, file_->path());
  }

  Status Discard(uint64_t offset, uint64_t bytes) override {
    const int fd = file_->get();
    int error = fd < 0 ? file_->error() : 0;
    if (error == 0) {
      do
        error = ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                            static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0
                    ? 0
                    : errno;
      while (error == EINTR);
    }
    if (error == EOPNOTSUPP || error == ENOSYS)
      return Unsupported(file_->path() + ": no holes here");
    return error == 0 ? Status() : ErrnoStatus(error, "cannot give back blocks of", file_->path());
  }

  Status Truncate(uint64_t bytes) override {
    const int fd = file_->get();
    int error = fd < 0 ? file_->error() : 0;
    if (error == 0) {
      do error = ::ftruncate(fd, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
      while (error == EINTR);
    }
    if (error != 0) return ErrnoStatus(error, "cannot truncate", file_->path());
    size_ = length_ = bytes;
    return Status();
  }

  Status Sync() override {
    const int fd = file_->get();
    int error = fd < 0 ? file_->error() : 0;
    if (error == 0) {
      do error = ::fdatasync(fd) == 0 ? 0 : errno;
      while (error == EINTR);
    }
    return error == 0 ? Status() : ErrnoStatus(error, "cannot sync", file_->path());
  }

  Status Close() override {
    if (closed_) return Status();
    closed_ = true;
    Status status;
    if (!shared_ && (reserved_ || length_ != size_)) status = Truncate(size_);
    const int error = file_->Close();
    if (error != 0 && status.ok()) status = ErrnoStatus(error, "cannot close", file_->path());
    return status;
  }

  uint64_t Size() const override { return size_; }

 private:
  Status Wrote(int error, uint64_t bytes, uint64_t offset, uint64_t written) {
    size_ = std::max(size_, offset + written);
    length_ = std::max(length_, size_);
    return error == 0 ? Status() : WriteError(error, "write", bytes, offset, file_->path());
  }

  int WriteZeros(int fd, uint64_t end) {
    static constexpr std::byte kZeros[16384]{};
    while (length_ < end) {
      const size_t want = std::min<uint64_t>(sizeof(kZeros), end - length_);
      uint64_t written = 0;
      const int error =
          internal::WriteFully({kZeros, want}, &written, [&](const std::byte* data, size_t count) {
            return ::pwrite(fd, data, count, static_cast<off_t>(length_ + written));
          });
      length_ += written;
      if (error != 0) return error;
    }
    return 0;
  }

  const std::unique_ptr<OwnedFd> file_;
  const bool shared_;
  bool closed_ = false;
  uint64_t size_;          // what was written
  uint64_t length_;        // of the file on disk: more than size_ after zeros were written ahead
  bool reserved_ = false;  // blocks beyond the end that Close gives back
};

class PosixReadableFile final : public ReadableFile {
 public:
  PosixReadableFile(std::unique_ptr<OwnedFd> file, uint64_t size)
      : file_(std::move(file)), size_(size) {}

  Result<size_t> ReadAt(uint64_t offset, std::span<std::byte> bytes) const override {
    std::unique_lock lock(mutex_);
    const int fd = file_->get();
    if (fd < 0) return ErrnoStatus(file_->error(), "cannot read", path());
    lock.unlock();
    size_t got = 0;
    while (got < bytes.size()) {
      const size_t want = std::min(bytes.size() - got, internal::kMaxWrite);
      const ssize_t rc = ::pread(fd, bytes.data() + got, want, static_cast<off_t>(offset + got));
      if (rc < 0 && errno == EINTR) continue;
      if (rc < 0) return ErrnoStatus(errno, "cannot read", path());
      if (rc == 0) break;
      got += static_cast<size_t>(rc);
    }
    return got;
  }
  uint64_t Size() const override { return size_; }
  const std::string& path() const override { return file_->path(); }
  void Rest() override {
    std::lock_guard lock(mutex_);
    file_->Rest();
  }

 private:
  const std::unique_ptr<OwnedFd> file_;
  mutable std::mutex mutex_;  // of file_
  const uint64_t size_;
};

class PosixMappedFile final : public MappedFile {
 public:
  PosixMappedFile(void* data, size_t size) : data_(data), size_(size) {}
  ~PosixMappedFile() override {
    if (size_ != 0) ::munmap(data_, size_);
  }
  std::span<const std::byte> bytes() const override {
    return {static_cast<const std::byte*>(data_), size_};
  }

 private:
  void* data_;
  size_t size_;
};

bool IsDirectory(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

class PosixEnv final : public Env {
 public:
  Result<std::unique_ptr<WritableFile>> CreateExclusive(const std::string& path,
                                                        int mode) override {
    auto file = std::make_unique<OwnedFd>(path, O_WRONLY | O_CREAT | O_EXCL, mode);
    if (file->error() != 0) return ErrnoStatus(file->error(), "cannot create", path);
    return std::unique_ptr<WritableFile>(new PosixWritableFile(std::move(file), 0));
  }

  Result<std::unique_ptr<WritableFile>> OpenAppend(const std::string& path, int mode) override {
    return OpenToWrite(path, mode, false);
  }

  Result<std::unique_ptr<WritableFile>> OpenShared(const std::string& path, int mode) override {
    return OpenToWrite(path, mode, true);
  }

  Result<std::unique_ptr<WritableFile>> OpenToWrite(const std::string& path, int mode,
                                                    bool shared) {
    auto file = std::make_unique<OwnedFd>(path, O_WRONLY | O_CREAT, mode);
    if (file->error() != 0) return ErrnoStatus(file->error(), "cannot open", path);
    struct stat info {};
    if (::fstat(file->get(), &info) != 0) return ErrnoStatus(errno, "cannot stat", path);
    return std::unique_ptr<WritableFile>(
        new PosixWritableFile(std::move(file), static_cast<uint64_t>(info.st_size), shared));
  }

  Result<std::unique_ptr<ReadableFile>> OpenRead(const std::string& path) override {
    uint64_t size = 0;
    TDUMP_ASSIGN_OR_RETURN(auto file, OpenSized(path, &size));
    return std::unique_ptr<ReadableFile>(new PosixReadableFile(std::move(file), size));
  }

  Result<std::unique_ptr<MappedFile>> Map(const std::string& path) override {
    uint64_t size = 0;
    TDUMP_ASSIGN_OR_RETURN(const auto file, OpenSized(path, &size));
    void* data = size == 0 ? nullptr : ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file->get(), 0);
    const int error = errno;
    if (data == MAP_FAILED) return ErrnoStatus(error, "cannot map", path);
    return std::unique_ptr<MappedFile>(new PosixMappedFile(data, size));
  }

  Status MakeDirs(const std::string& path, int mode) override {
    const int error = internal::MakeDirsWithRetry(
        path,
        [&](const std::string& part) {
          return ::mkdir(part.c_str(), static_cast<mode_t>(mode)) == 0 ? 0 : errno;
        },
        IsDirectory);
    return error == 0 ? Status() : ErrnoStatus(error, "cannot make the directory", path);
  }

  Status Rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) == 0) return Status();
    return ErrnoStatus(errno, "cannot rename '" + from + "' to", to);
  }

  Status Remove(const std::string& path) override {
    return ::remove(path.c_str()) == 0 ? Status() : ErrnoStatus(errno, "cannot remove", path);
  }

  Status SyncDirectory(const std::string& path) override {
    OwnedFd directory(path, O_RDONLY | O_DIRECTORY, 0);
    int error = directory.error();
    if (error == 0) {
      do error = ::fsync(directory.get()) == 0 ? 0 : errno;
      while (error == EINTR);
    }
    if (error == EINVAL || error == EBADF) error = 0;  // a file system that cannot sync directories
    return error == 0 ? Status() : ErrnoStatus(error, "cannot sync the directory", path);
  }

  Status Symlink(const std::string& target, const std::string& link) override {
    static std::atomic<uint64_t> counter{0};
    const std::string temporary = link + "." + std::to_string(::getpid()) + "-" +
                                  std::to_string(counter.fetch_add(1)) + ".tmp";
    if (::symlink(target.c_str(), temporary.c_str()) != 0)
      return ErrnoStatus(errno, "cannot link", link);
    if (::rename(temporary.c_str(), link.c_str()) == 0) return Status();
    const int error = errno;
    ::unlink(temporary.c_str());
    return ErrnoStatus(error, "cannot link", link);
  }

  Result<FileInfo> Stat(const std::string& path) override {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, "cannot stat", path);
    return FileInfo{static_cast<uint64_t>(info.st_size), S_ISDIR(info.st_mode),
                    int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
  }

  Result<std::vector<std::string>> List(const std::string& directory) override {
    DIR* handle = ::opendir(directory.c_str());
    if (handle == nullptr) return ErrnoStatus(errno, "cannot list", directory);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(handle)) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
      errno = 0;
    }
    const int error = errno;
    ::closedir(handle);
    if (error != 0) return ErrnoStatus(error, "cannot list", directory);
    std::sort(names.begin(), names.end());
    return names;
  }

  Result<uint64_t> FreeBytes(const std::string& path) override {
    struct statvfs info {};
    int rc;
    do rc = ::statvfs(path.c_str(), &info);
    while (rc != 0 && errno == EINTR);
    if (rc != 0) return ErrnoStatus(errno, "cannot ask the free space of", path);
    return uint64_t{info.f_bavail} * info.f_frsize;
  }

  Status WithLock(const std::string& path, int timeout_ms,
                  const std::function<Status()>& body) override {
    OwnedFd file(path, O_RDWR | O_CREAT, 0600);
    if (file.error() != 0) return ErrnoStatus(file.error(), "cannot open the lock", path);
    const int fd = file.get();
    const int64_t deadline = MonotonicNs() + int64_t{timeout_ms} * 1'000'000;
    int error = 0;
    for (int64_t wait = 1'000'000; ::flock(fd, LOCK_EX | LOCK_NB) != 0;
         wait = std::min<int64_t>(2 * wait, 20'000'000)) {
      error = errno;
      if (error != EWOULDBLOCK && error != EINTR) break;
      if (MonotonicNs() >= deadline) break;
      error = 0;
      internal::SleepNs(wait);
    }
    if (error != 0) return ErrnoStatus(error, "cannot lock", path);
    Status status = body();
    (void)::flock(fd, LOCK_UN);  // a child that was forked meanwhile has the file open as well
    return status;
  }

  int64_t MonotonicNs() override { return ClockNs(CLOCK_MONOTONIC); }
  int64_t WallNs() override { return ClockNs(CLOCK_REALTIME); }

 private:
  static Result<std::unique_ptr<OwnedFd>> OpenSized(const std::string& path, uint64_t* size) {
    auto file = std::make_unique<OwnedFd>(path, O_RDONLY | O_NONBLOCK);  // a pipe has no writer
    if (file->error() != 0) return ErrnoStatus(file->error(), "cannot open", path);
    struct stat info {};
    int error = ::fstat(file->get(), &info) == 0 ? 0 : errno;
    if (error == 0 && !S_ISREG(info.st_mode)) error = S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
    if (error != 0) return ErrnoStatus(error, "cannot open", path);
    *size = static_cast<uint64_t>(info.st_size);
    return file;
  }
};

}  // namespace

Env* Env::Posix() {
  static Env* const env = new PosixEnv;
  return env;
}

}  // namespace tdump
