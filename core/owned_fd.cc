#include "core/owned_fd.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace tdump::internal {
namespace {

// Tried in this order: the limit of open files (ulimit -n) may be low.
constexpr int kLowestNumbers[] = {512, 128, 32, 10, 3};

int Raise(int fd) {
  for (const int lowest : kLowestNumbers) {
    const int raised = ::fcntl(fd, F_DUPFD_CLOEXEC, lowest);
    if (raised < 0) continue;
    ::close(fd);
    return raised;
  }
  if (fd > 2) return fd;
  ::close(fd);
  errno = EMFILE;
  return -1;
}

}  // namespace

OwnedFd::OwnedFd(std::string path, int flags, mode_t mode)
    : path_(std::move(path)), flags_(flags & ~(O_CREAT | O_EXCL | O_TRUNC)) {
  fd_ = Open(flags, mode);
  if (fd_ >= 0 && !Identify(fd_, &file_)) {
    error_ = errno;
    ::close(std::exchange(fd_, -1));
  }
}

int OwnedFd::Open(int flags, mode_t mode) {
  int fd;
  do fd = ::open(path_.c_str(), flags | O_CLOEXEC, mode);
  while (fd < 0 && errno == EINTR);
  if (fd >= 0) fd = Raise(fd);
  if (fd < 0) error_ = errno;
  return fd;
}

// statx: device and inode alone cost no request to the server of a network file system.
bool OwnedFd::Identify(int fd, File* file) {
  struct statx info {};
  if (::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &info) == 0) {
    *file = {::gnu_dev_makedev(info.stx_dev_major, info.stx_dev_minor), info.stx_ino};
    return true;
  }
  if (errno != ENOSYS) return false;
  struct stat old {};
  if (::fstat(fd, &old) != 0) return false;
  *file = {old.st_dev, old.st_ino};
  return true;
}

int OwnedFd::get() {
  if (fd_ < 0 && !resting_) return -1;
  File now;
  if (fd_ >= 0 && Identify(fd_, &now) && now == file_) return fd_;
  fd_ = Open(flags_, 0);
  if (fd_ < 0) return -1;
  if (Identify(fd_, &now) && now == file_) return fd_;
  ::close(std::exchange(fd_, -1));
  error_ = ESTALE;
  return -1;
}

int OwnedFd::Close() {
  if (fd_ < 0) return 0;
  File now;
  const int fd = std::exchange(fd_, -1);
  resting_ = false;
  error_ = EBADF;
  if (!Identify(fd, &now) || now != file_) return 0;
  return ::close(fd) == 0 || errno == EINTR ? 0 : errno;  // closed on Linux whatever close says
}

void OwnedFd::Rest() {
  if (fd_ < 0) return;
  (void)Close();
  resting_ = true;
}

}  // namespace tdump::internal
