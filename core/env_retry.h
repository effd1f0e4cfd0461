// The retry rules of Env, shared by the posix and the faulty implementation so
// that a test of one is a test of both.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <span>
#include <string>
#include <string_view>

namespace tdump::internal {

// At most this much goes into one write(2); Linux itself stops at about 2 GiB.
inline constexpr size_t kMaxWrite = size_t{1} << 30;

inline void SleepNs(int64_t ns) {
  timespec time{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
  ::nanosleep(&time, nullptr);
}

// `write(data, bytes)` has the meaning of write(2). Repeats it after short writes and EINTR until
// all is written. Returns 0 or the errno; `*written` is what was written in either case.
template <class Write>
int WriteFully(std::span<const std::byte> bytes, uint64_t* written, Write write) {
  *written = 0;
  int stalls = 0;
  while (*written < bytes.size()) {
    const size_t want = std::min<size_t>(bytes.size() - *written, kMaxWrite);
    const ssize_t done = write(bytes.data() + *written, want);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return errno;
    if (done == 0 && ++stalls > 100)
      return EIO;  // a file system that takes nothing and says nothing
    *written += static_cast<uint64_t>(done);
  }
  return 0;
}

// What fcntl(2) and write(2) say of O_DIRECT where it is not to be had: the file system, the
// device's block size, memory that belongs to a device.
inline bool RefusesDirect(int error) {
  return error == EINVAL || error == EOPNOTSUPP || error == EFAULT;
}

// As WriteFully, but whole pages are written `direct`, what is left behind them `cached`. A direct
// write may stop anywhere (a full disk, a signal); from there on, and after a refusal, the rest is
// written cached. `*refused`: whether there was one.
template <class Direct, class Cached>
int WriteDirectly(std::span<const std::byte> bytes, uint64_t page, uint64_t* written, bool* refused,
                  Direct direct, Cached cached) {
  *refused = false;
  return WriteFully(bytes, written, [&](const std::byte* data, size_t count) -> ssize_t {
    const size_t pages = *written % page == 0 && !*refused ? count / page * page : 0;
    if (pages > 0) {
      const ssize_t done = direct(data, pages);
      if (done >= 0 || !RefusesDirect(errno)) return done;
      *refused = true;
    }
    return cached(data, count);
  });
}

// Makes `path` and its missing parents. `mkdir(path)` returns 0 or an errno, `is_directory(path)`
// asks afresh. Another process may create, or briefly seem to lack, any part of the path at any
// time (cached negative look-ups of network file systems): EEXIST of a directory is success, ENOENT
// steps back to the parent, both a bounded number of times.
template <class MakeDirectory, class IsDirectory>
int MakeDirsWithRetry(const std::string& path, MakeDirectory mkdir, IsDirectory is_directory) {
  if (path.empty() || is_directory(path)) return 0;
  size_t end = path.find_first_not_of('/');
  end = path.find('/', end);
  int failures = 0;
  for (;;) {
    const std::string part = path.substr(0, end);
    int error = mkdir(part);
    if (error != 0 && error != EINTR && is_directory(part)) error = 0;
    if (error == 0) {
      if (end == std::string::npos) return 0;
      end = path.find_first_not_of('/', end);
      if (end == std::string::npos) return 0;
      end = path.find('/', end);
      continue;
    }
    const bool transient = error == ENOENT || error == EEXIST || error == EINTR || error == ESTALE;
    if (!transient || ++failures > 60) return error == EEXIST ? ENOTDIR : error;
    if (error == EEXIST && failures > 10) return ENOTDIR;
    if (failures > 3) SleepNs(std::min(failures, 20) * 1'000'000);
    if (error == ENOENT) {  // the parent again
      const size_t parent = part.find_last_not_of('/', part.rfind('/'));
      if (part.rfind('/') != std::string::npos && parent != std::string::npos) end = parent + 1;
    }
  }
}

}  // namespace tdump::internal
