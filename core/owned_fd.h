// OwnedFd: a descriptor inside a process whose program knows nothing of it. The program may close
// every descriptor above 2 (daemons do), put its own file at a number it chose (dup2), or run with
// standard streams closed, so that the next file opened would become its stderr. Hence
//
//   1. the number is high, out of the way of what the program opens next and of 0, 1 and 2;
//   2. before each use the descriptor is compared with what was opened; when it was closed or is
//      another file by now, the file is opened again by its path, and the foreign descriptor is
//      neither written nor closed.
//
// Owns the descriptor. Not thread-safe. Never throws but std::bad_alloc.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace tdump::internal {

class OwnedFd {
 public:
  // open(2) with EINTR retried, on a high number. On failure get() is -1 and error() the errno.
  OwnedFd(std::string path, int flags, mode_t mode = 0);
  ~OwnedFd() { (void)Close(); }
  OwnedFd(const OwnedFd&) = delete;
  OwnedFd& operator=(const OwnedFd&) = delete;

  // The descriptor, or -1 with error() set when it was lost and its path names another file now.
  int get();
  int error() const { return error_; }
  const std::string& path() const { return path_; }
  // 0 or the errno of close(2).
  int Close();
  // Closes it until get() is called again.
  void Rest();

 private:
  struct File {
    uint64_t device = 0;
    uint64_t inode = 0;
    bool operator==(const File&) const = default;
  };
  static bool Identify(int fd, File* file);
  int Open(int flags, mode_t mode);

  const std::string path_;
  const int flags_;
  int fd_ = -1;
  int error_ = 0;
  bool resting_ = false;
  File file_;
};

}  // namespace tdump::internal
