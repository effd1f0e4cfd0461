// Env: the operating system as io and coordinator see it. Three implementations: posix (the real
// one), memory (a file system in RAM, for tests), faulty (wraps another and fails chosen calls:
// ENOSPC, EDQUOT, EIO, EINTR, short writes).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace tdump {

inline constexpr uint64_t kDirectAlign = 4096;  // a page, and a multiple of a disk's blocks

// A file open for appending or positioned writing. Not thread-safe. All-or-error: short writes and
// EINTR are retried inside; after an error the file's length is what Size() says.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual Status Append(std::span<const std::byte> bytes) = 0;
  virtual Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) = 0;
  // The same, but whole pages go past the page cache (O_DIRECT); `offset` and the address of
  // `bytes` are multiples of kDirectAlign. False: the file system, the device or the memory does
  // not allow that, and the cache took all or the rest.
  virtual Result<bool> WriteDirect(uint64_t offset, std::span<const std::byte> bytes) {
    TDUMP_RETURN_IF_ERROR(WriteAt(offset, bytes));
    return false;
  }
  // Real blocks beyond the end, so that a later write there cannot hit a full disk; the length
  // stays as it is, and Close() gives back what was not used. Where the file system cannot do it:
  // `or_zeros` writes zeros, cut at Close(); else kUnsupported.
  virtual Status Preallocate(uint64_t offset, uint64_t bytes, bool or_zeros) = 0;
  // Gives the blocks of whole pages in the middle of the file back; they read as zeros from then
  // on.
  virtual Status Discard(uint64_t /*offset*/, uint64_t /*bytes*/) {
    return Unsupported("no holes here");
  }
  virtual Status Truncate(uint64_t bytes) = 0;
  virtual Status Sync() = 0;
  virtual Status Close() = 0;
  virtual uint64_t Size() const = 0;
};

// A file open for reading at any offset. Thread-safe. Reads past the end return what is there.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual Result<size_t> ReadAt(uint64_t offset, std::span<std::byte> bytes) const = 0;
  virtual uint64_t Size() const = 0;  // when opened
  virtual const std::string& path() const = 0;
  // Gives back what the system holds for the open file, until the next read, which opens it anew.
  // No read is under way.
  virtual void Rest() {}
};

// The whole file mapped read-only. Never raises SIGBUS for a file that shrinks: length is checked
// against fstat, and readers that must survive a concurrent truncation use ReadableFile instead.
class MappedFile {
 public:
  virtual ~MappedFile() = default;
  virtual std::span<const std::byte> bytes() const = 0;
};

struct FileInfo {
  uint64_t bytes = 0;
  bool is_directory = false;
  int64_t mtime_ns = 0;
};

class Env {
 public:
  virtual ~Env() = default;
  static Env* Posix();  // the process-wide real one, never destroyed

  virtual Result<std::unique_ptr<WritableFile>> CreateExclusive(const std::string& path,
                                                                int mode) = 0;
  // Creates the file when there is none.
  virtual Result<std::unique_ptr<WritableFile>> OpenAppend(const std::string& path, int mode) = 0;
  // The same, of a file that others write to at the same time: Close() leaves its length and what
  // is preallocated as they are.
  virtual Result<std::unique_ptr<WritableFile>> OpenShared(const std::string& path, int mode) = 0;
  virtual Result<std::unique_ptr<ReadableFile>> OpenRead(const std::string& path) = 0;
  virtual Result<std::unique_ptr<MappedFile>> Map(const std::string& path) = 0;
  // All missing parents too. Racing creators, EEXIST of a directory and a stale ENOENT are retried.
  virtual Status MakeDirs(const std::string& path, int mode) = 0;
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  virtual Status Remove(const std::string& path) = 0;
  // The names made in `path` by creation and renaming are on stable storage when this returns.
  virtual Status SyncDirectory(const std::string& path) = 0;
  // Replaces atomically.
  virtual Status Symlink(const std::string& target, const std::string& link) = 0;
  virtual Result<FileInfo> Stat(const std::string& path) = 0;
  // Sorted, without . and ..
  virtual Result<std::vector<std::string>> List(const std::string& directory) = 0;
  // For this user, of the file system that holds path.
  virtual Result<uint64_t> FreeBytes(const std::string& path) = 0;
  // Runs `body` under an exclusive advisory lock on `path` (created when
  // missing). Waits at most `timeout_ms`.
  virtual Status WithLock(const std::string& path, int timeout_ms,
                          const std::function<Status()>& body) = 0;
  virtual int64_t MonotonicNs() = 0;
  virtual int64_t WallNs() = 0;  // since the epoch
};

std::unique_ptr<Env> NewMemoryEnv();

// Decides the fate of the n-th operating-system call (counted from 0). Returns 0 to
// let it pass, an errno to fail it, or kShortWrite to make a write take only part of
// its bytes (the retry must finish it).
inline constexpr int kShortWrite = -1;
using FaultPlan = std::function<int(uint64_t n, std::string_view call, std::string_view path)>;
std::unique_ptr<Env> NewFaultyEnv(Env* base, FaultPlan plan);

// Whole small files.
Result<std::string> ReadFile(Env* env, const std::string& path, uint64_t max_bytes);
Status WriteFileAtomically(Env* env, const std::string& path, std::string_view bytes, int mode);
std::string JoinPath(std::string_view directory, std::string_view name);

}  // namespace tdump
